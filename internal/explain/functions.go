package explain

import (
	"fmt"
	"strconv"

	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// functionWide is the display width of a GPU function's name beside other columns.
const functionWide = 56

// FunctionName returns a short form of a mangled name, "" for "".
func FunctionName(mangled string) string { return clean(symbols.Short(mangled, functionWide)) }

// AppendFunctionJSON appends a function as one line of JSON, without the newline: a
// [wire.FunctionLine].
func AppendFunctionJSON(b []byte, f *events.Function) []byte {
	b = append(b, `{"type":"function","pid":`...)
	b = strconv.AppendUint(b, uint64(f.PID), 10)
	b = append(b, `,"handle":"0x`...)
	b = append(strconv.AppendUint(b, f.Handle, 16), '"')
	if f.Time != 0 {
		b = appendInt(b, "since_ns", f.Time)
	}
	if f.Why != 0 {
		b = appendText(b, "why", f.Why.String())
		return append(b, '}')
	}
	b = append(b, `,"symbol":`...)
	b = appendString(b, f.Name)
	b = append(b, `,"function":`...)
	return append(appendString(b, symbols.Demangle(f.Name)), '}')
}

func launchesOf(l *tick.Launches) wire.Launches {
	j := wire.Launches{PID: l.PID, Launches: l.Launches, Named: l.Named, Pending: l.Pending, Functions: l.Functions, Top: []wire.FunctionLaunches{}}
	for _, u := range l.Unnamed {
		j.Unnamed = append(j.Unnamed, wire.UnnamedLaunches{Why: u.Why.String(), Launches: u.Launches})
	}
	for _, f := range l.Top {
		t := wire.FunctionLaunches{Function: clean(symbols.Demangle(f.Function)), Symbol: clean(f.Function), Launches: f.Launches}
		if f.Timed > 0 {
			t.TimeNS = new(f.Time)
		}
		j.Top = append(j.Top, t)
	}
	return j
}

// joinLaunches adds up the launches of each PID: it may have been reused.
func joinLaunches(all []tick.Launches) map[uint32]*wire.Launches {
	out := map[uint32]*wire.Launches{}
	for i := range all {
		j := launchesOf(&all[i])
		if x := out[j.PID]; x == nil || x.Launches < j.Launches {
			j.PID = 0
			out[all[i].PID] = &j
		}
	}
	return out
}

// functions writes the launches of a process.
func (w *writer) functions(l *wire.Launches) {
	const most = 5
	w.line("")
	head := "GPU functions: " + Count(uint64(l.Functions)) + " in " + plural(l.Launches, "launch")
	if missing := l.Launches - min(l.Named, l.Launches); missing > 0 {
		head += ", " + Count(missing) + " without a name"
	}
	w.text(head, "  ")
	if len(l.Top) > 0 {
		w.line("  " + alignLeft("", functionWide) + alignRight("launches", 11) + alignRight("in calls", 10))
	}
	for i := range l.Top[:min(len(l.Top), most)] {
		t := &l.Top[i]
		total := unknown
		if t.TimeNS != nil {
			total = short(ns64(*t.TimeNS))
		}
		w.named(FunctionName(t.Symbol), functionWide, alignRight(Count(t.Launches), 11)+alignRight(total, 10))
	}
	if more := l.Functions - most; more > 0 {
		w.line(fmt.Sprintf("  and %s more: ingero query --by function", Count(uint64(more))))
	}
	for _, u := range l.Unnamed {
		w.text(fmt.Sprintf("No name for %s: %s", plural(u.Launches, "launch"), u.Why), "    ")
	}
}
