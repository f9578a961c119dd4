package xid

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// Messages of real machines are parsed, with any numbers and spaces.
func TestFieldMessages(t *testing.T) {
	for _, f := range testkit.Facts(t, "messages.tsv") {
		for _, v := range variants {
			t.Run(f.At+" "+v.name, func(t *testing.T) {
				l := &Log{}
				record, changed := v.change(escapeRecord(f.Input))
				xs := l.flush(l.record(nil, []byte("3,10,5000000,-;"+record+"\n")))
				if len(xs) > 1 {
					t.Fatalf("%d faults: %+v", len(xs), xs)
				}
				got := of(xs)
				got["unread"] = fmt.Sprint(l.Unread())
				w := f
				if changed {
					w.Want = v.expect(f.Want)
				}
				w.Check(t, got)
			})
		}
	}
}

// escapeRecord escapes a message as the log does.
func escapeRecord(s string) string { return strings.ReplaceAll(s, "\n", `\x0a`) }

// variant is a difference between machines.
type variant struct {
	name    string
	pattern *regexp.Regexp // nil: no difference
	with    string
	wants   map[string]string // other expectations where it differs; "": none
}

var variants = []variant{
	{name: "as it is"},
	{"another process", regexp.MustCompile(`\bpid=[0-9]+`), "pid=4194303", map[string]string{"pid": "4194303"}},
	{"another GPU", regexp.MustCompile(`\(PCI:[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}`), "(PCI:000f:E1:1f", map[string]string{"bus": "000f:e1:1f", "device": ""}},
	{"more spaces", regexp.MustCompile(`\): `), "):  ", nil},
	{"no spaces", regexp.MustCompile(`, (pid|name)=`), ",$1=", nil},
}

func (v *variant) change(text string) (string, bool) {
	if v.pattern == nil {
		return text, false
	}
	changed := v.pattern.ReplaceAllString(text, v.with)
	return changed, changed != text
}

func (v *variant) expect(wants []testkit.Want) (out []testkit.Want) {
	for _, w := range wants {
		to, differs := v.wants[w.Name]
		if differs && w.Value != testkit.None {
			w.Value = to
		}
		if !differs || to != "" {
			out = append(out, w)
		}
	}
	return out
}

// of returns the facts about the only fault.
func of(xs []tick.Xid) map[string]string {
	got := map[string]string{}
	for _, name := range []string{"code", "bus", "gi", "ci", "device", "pid", "name", "caused_by", "no_code", "switch", "severity", "do", "msg"} {
		got[name] = ""
	}
	for i := range xs {
		x := &xs[i]
		c := LookupFault(x)
		got["code"], got["bus"], got["device"], got["msg"] = fmt.Sprint(x.Code), x.Bus, x.Device(), x.Msg
		got["gi"], got["ci"], got["name"] = x.GPUInstance.String(), x.ComputeInstance.String(), x.SaidName
		got["no_code"], got["switch"] = strconv.FormatBool(x.NoCode), strconv.FormatBool(x.Switch)
		got["severity"], got["do"], got["pid"], got["caused_by"] = c.Severity, c.Do, positive(x.SaidPID), positive(x.CausedBy)
	}
	return got
}

func positive(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// Messages of one fault give one fault, by any ways and in any number of lines. Its consequences
// are in the same burst.
func TestFieldSequences(t *testing.T) {
	for _, f := range testkit.Facts(t, "sequences.tsv") {
		t.Run(f.At, func(t *testing.T) {
			f.Check(t, reported(t, f.Input))
		})
	}
}

// reported passes the lines of a sequence through the whole package.
func reported(t *testing.T, input string) map[string]string {
	a, l := Assembly{BothSources: strings.Contains(input, " tracepoint ")}, &Log{}
	began := time.Unix(1_800_000_000, 0)
	var out []tick.Xid
	for n, line := range strings.Split(input, "\n") {
		when, rest, _ := strings.Cut(line, " ")
		way, text, _ := strings.Cut(rest, " ")
		seconds, err := strconv.ParseFloat(when, 64)
		if err != nil {
			t.Fatal(err)
		}
		at := began.Add(time.Duration(seconds * float64(time.Second)))
		out = a.Take(out, at)
		if way == "tracepoint" {
			var x tick.Xid
			dev, rest, _ := strings.Cut(text, " ")
			code, msg, _ := strings.Cut(rest, " ")
			number, _ := strconv.ParseUint(code, 10, 32)
			x.Code, x.Bus, x.Via, x.Time = uint32(number), Bus(dev), tick.ViaTracepoint, at.UnixNano()
			x.SetMessage(strings.ReplaceAll(msg, `\n`, "\n"))
			a.Add(&x, at)
			continue
		}
		record := fmt.Sprintf("3,%d,%d,-;%s\n", n, at.UnixMicro(), escapeRecord(text))
		for _, x := range l.flush(l.record(nil, []byte(record))) {
			a.Add(&x, at)
		}
	}
	out = a.Flush(out)
	var b Bursts
	b.Group(out)
	return list(out)
}

func list(xs []tick.Xid) map[string]string {
	got := map[string]string{"faults": fmt.Sprint(len(xs)), "msg": ""}
	for _, column := range []struct {
		name  string
		value func(*tick.Xid) any
	}{
		{"codes", func(x *tick.Xid) any { return x.Code }}, {"roots", func(x *tick.Xid) any { return x.Root }},
		{"bursts", func(x *tick.Xid) any { return x.Burst }}, {"pids", func(x *tick.Xid) any { return x.SaidPID }},
		{"causes", func(x *tick.Xid) any { return x.CausedBy }}, {"vias", func(x *tick.Xid) any { return x.Via }},
		{"severities", func(x *tick.Xid) any { return LookupFault(x).Severity }},
	} {
		var all []string
		for i := range xs {
			all = append(all, fmt.Sprint(column.value(&xs[i])))
		}
		got[column.name] = strings.Join(all, ",")
	}
	if len(xs) > 0 {
		got["msg"] = xs[0].Msg
	}
	return got
}
