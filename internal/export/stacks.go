package export

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/query"
	"ingero/internal/symbols"
	"ingero/pkg/events"
)

// StackValue is a measure of stacks.
type StackValue struct {
	Name string // name in commands
	Type string // type in a profile
	Unit string
	of   func(*query.StackSum) uint64
}

// StackValues are the measures of stacks, the default first.
var StackValues = []StackValue{
	{"wall", "wall", "nanoseconds", func(s *query.StackSum) uint64 { return s.Wall }},
	{"gpu-wait", "gpu_wait", "nanoseconds", func(s *query.StackSum) uint64 { return s.GPUWait }},
	{"runnable", "runnable", "nanoseconds", func(s *query.StackSum) uint64 { return s.Runnable }},
	{"calls", "calls", "count", func(s *query.StackSum) uint64 { return s.Calls }},
	{"launches", "launches", "count", func(s *query.StackSum) uint64 { return s.Launches }},
	{"memory", "gpu_memory", "bytes", func(s *query.StackSum) uint64 { return s.Live }},
}

// stackRow is a stack in these formats: from the process to the called function.
type stackRow struct {
	frames []stackFrame
	sum    *query.StackSum
}

type stackFrame struct {
	name   string
	file   string // source file, else the mapped file
	line   int32
	module string
}

// StackResult describes what was written of stacks.
type StackResult struct {
	Result
	Stacks  int
	Without uint64 // calls without a stack
}

// stackRows reads the stacks of all sessions of a filter.
func stackRows(ctx context.Context, r *query.Reader, f query.Filter) ([]stackRow, *StackResult, error) {
	res := &StackResult{}
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	var rows []stackRow
	for i := range sessions {
		f.Session = sessions[i].ID
		sum, err := r.Summary(ctx, query.Filter{Session: f.Session})
		if err != nil {
			return nil, nil, err
		}
		sums, without, cover, err := r.StackSums(ctx, f)
		if err != nil {
			return nil, nil, err
		}
		names := map[uint32]string{}
		for j := range sum.Processes {
			names[sum.Processes[j].PID] = sum.Processes[j].Comm
		}
		for j := range sums {
			s := &sums[j]
			rows = append(rows, stackRow{framesOf(s, names[s.PID]), s})
			res.Calls += s.Calls
		}
		if len(sums) > 0 {
			res.Sessions++
		}
		res.Without += without
		res.Coverage.Add(cover)
	}
	res.Stacks = len(rows)
	return rows, res, nil
}

// framesOf lists a stack's frames, outermost first: the process, its functions, the call, and what
// it launched.
func framesOf(s *query.StackSum, comm string) []stackFrame {
	out := []stackFrame{{name: strings.TrimSpace(comm + " (" + strconv.FormatUint(uint64(s.PID), 10) + ")")}}
	if s.Stack == nil {
		out = append(out, stackFrame{name: "[stack not known]"})
	} else {
		if s.Stack.Cut {
			out = append(out, stackFrame{name: "[stack truncated]"})
		}
		for i := len(s.Stack.Frames) - 1; i >= 0; i-- {
			f := &s.Stack.Frames[i]
			if i == 0 && f.Kind == events.FrameNative { // the operation names the traced function
				f = &events.Frame{Kind: events.FrameNative, Func: s.Op.String(), Module: f.Module, File: f.File, Line: f.Line}
			}
			out = append(out, frameOf(f))
		}
	}
	if s.Stack == nil || len(s.Stack.Frames) == 0 || s.Stack.Frames[0].Kind != events.FrameNative {
		out = append(out, stackFrame{name: s.Op.String()})
	}
	if s.Function != "" {
		out = append(out, stackFrame{name: "[GPU] " + symbols.Demangle(s.Function)})
	}
	return out
}

func frameOf(f *events.Frame) stackFrame {
	out := stackFrame{name: f.Func, file: f.File, line: f.Line, module: f.Module}
	switch {
	case f.Kind == events.FrameGap:
		out.name = "[" + f.Func + "]"
	case f.Func == "":
		out.name = f.Place()
	}
	return out
}

// Folded writes the matching calls' stacks as lines for speedscope and flame graphs: the functions,
// outermost first, separated by semicolons, and a number.
func Folded(ctx context.Context, w io.Writer, r *query.Reader, f query.Filter, v *StackValue) (*StackResult, error) {
	rows, res, err := stackRows(ctx, r, f)
	if err != nil {
		return nil, err
	}
	sums := map[string]uint64{}
	for i := range rows {
		n := v.of(rows[i].sum)
		if n == 0 {
			continue
		}
		var line strings.Builder
		for j, f := range rows[i].frames {
			if j > 0 {
				line.WriteByte(';')
			}
			line.WriteString(foldedName(&f))
		}
		sums[line.String()] += n
	}
	out := bufio.NewWriter(w)
	for _, line := range slices.Sorted(maps.Keys(sums)) {
		if _, err := fmt.Fprintf(out, "%s %d\n", line, sums[line]); err != nil {
			return nil, err
		}
	}
	return res, out.Flush()
}

// foldedName returns a frame on one line, with the line number of a Python frame.
func foldedName(f *stackFrame) string {
	name := f.name
	if f.line > 0 {
		name += " (" + f.file + ":" + strconv.Itoa(int(f.line)) + ")"
	}
	return strings.Map(func(r rune) rune {
		if r == ';' {
			return ':'
		}
		if r < ' ' {
			return ' '
		}
		return r
	}, name)
}
