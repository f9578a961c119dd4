package causal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/tick"
)

// baselineText describes the normal case, and how it is known.
func (e *Engine) baselineText(r *Rule, y *tally) string {
	length := "a normal step takes " + span(y.worst.normal)
	if y.worst.period {
		length = "the thread has no steps, so part of this may not have delayed the GPU"
	}
	if who := byLost(y); len(who) > 0 && e.causes.list[who[0]].baseline == baselinePace {
		return "the usual wait of a step; " + length
	}
	if r.Claims.Baseline != nil {
		switch r.Claims.Baseline(&Part{}) {
		case baselineZero:
			return "no such wait; " + length
		case baselineShared:
			return "no more such waits than usual; " + length
		}
	}
	return "10th percentile of the steps of the same kind; " + length
}

// ruledOut lists what was checked and did not grow.
func (e *Engine) ruledOut(v *verdict, y *tally) []string {
	var out []string
	if gpu, ok := gpuAsBefore(v, y); ok {
		out = append(out, "GPU ("+span(gpu)+" a step, as before)")
	}
	unseen := e.lost(v.s.pid, v.from, v.from+v.span)
	for r := range Rules {
		if x := &Rules[r]; r != y.rule && x.Sees&unseen == 0 && x.Claims != nil && x.Claims.Word != "" && x.Needs&^e.have == 0 && v.rule[r] < 0.002*float64(v.span) {
			out = append(out, x.Claims.Word)
		}
	}
	return out
}

// gpuAsBefore returns how long normal steps wait for the GPU, if the slow ones do not wait longer.
func gpuAsBefore(v *verdict, y *tally) (ns int64, ok bool) {
	var normal, slow []weighted
	for i := range v.steps {
		switch x := &v.steps[i]; {
		case x.kind != y.worst.kind:
		case x.lost == 0:
			normal = append(normal, weighted{x.gpu, x.weight})
		default:
			slow = append(slow, weighted{x.gpu, x.weight})
		}
	}
	if len(normal) < minFree || len(slow) == 0 {
		return 0, false
	}
	ns = quantile(normal, 0.5)
	return ns, float64(quantile(slow, 0.5)) <= 1.1*float64(ns)
}

// timeline returns the few events that show a cause at work.
func (e *Engine) timeline(v *verdict, y *tally) []tick.Moment {
	var out []tick.Moment
	add := func(ns int64, source, format string, a ...any) {
		out = append(out, tick.Moment{Time: wall(ns), Source: source, Text: fmt.Sprintf(format, a...)})
	}
	if who := byLost(y); len(who) > 0 {
		x := &e.causes.list[who[0]]
		add(x.first, "HOST", "%s: first seen", culpritName(x))
		if x.last > x.first {
			add(x.last, "HOST", "%s: last seen", culpritName(x))
		}
	}
	add(y.first.from, "CUDA", "first slow step: %s", e.stepText(y.first))
	if y.worst != y.first {
		add(y.worst.from, "CUDA", "slowest step: %s", e.stepText(y.worst))
	}
	if y.last != y.first && y.last != y.worst {
		add(y.last.from, "CUDA", "last slow step: %s", e.stepText(y.last))
	}
	slices.SortStableFunc(out, func(a, b tick.Moment) int { return a.Time.Compare(b.Time) })
	return out
}

// stepText describes a step and its parts.
func (e *Engine) stepText(x *step) string {
	var b strings.Builder
	name := "1 s"
	if x.op != 0 {
		name = x.op.String()
	}
	fmt.Fprintf(&b, "%s, up to %s", span(x.length), name)
	sep := " = "
	for _, p := range [...]struct {
		name string
		ns   int64
	}{{"GPU wait", int64(x.gpu)}, {"on CPU", int64(x.cpu)}, {"runnable", int64(x.waited)}, {"blocked", int64(x.blocked)}} {
		if p.ns > 0 {
			fmt.Fprintf(&b, "%s%s %s", sep, p.name, span(p.ns))
			sep = " + "
		}
	}
	for i, g := range e.named(x) {
		if i == 4 {
			break
		}
		sep = ", "
		if i == 0 {
			sep = " ("
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, g.name, span(g.ns))
	}
	if x.n > 0 {
		b.WriteByte(')')
	}
	return b.String()
}

// taken is what one culprit took of a step.
type taken struct {
	name string
	ns   int64
}

// named returns a step's grown parts by culprit, the largest first.
func (e *Engine) named(x *step) (out []taken) {
	for _, g := range x.excess() {
		name := culpritName(&e.causes.list[g.cause])
		i := slices.IndexFunc(out, func(o taken) bool { return o.name == name })
		if i < 0 {
			i, out = len(out), append(out, taken{name: name})
		}
		out[i].ns += g.ns
	}
	slices.SortStableFunc(out, func(a, b taken) int { return cmp.Compare(b.ns, a.ns) })
	return out
}

// culpritName describes a culprit in a few words.
func culpritName(c *cause) string {
	switch {
	case c.thread.TID == 0:
		return c.what
	case c.what == "":
		return fmt.Sprintf("%s (%d) on the CPU", c.thread.Name, c.thread.PID)
	}
	return fmt.Sprintf("%s (%d) %s", c.thread.Name, c.thread.PID, c.what)
}

// span formats a time with three significant digits.
func span(ns int64) string {
	d := time.Duration(ns)
	unit, name := float64(time.Second), "s"
	switch {
	case d < time.Millisecond:
		unit, name = float64(time.Microsecond), "us"
	case d < time.Second:
		unit, name = float64(time.Millisecond), "ms"
	}
	x := float64(ns) / unit
	digits := 2
	switch {
	case x >= 100:
		digits = 0
	case x >= 10:
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + " " + name
}

func moment(ns int64, source, format string, a ...any) tick.Moment {
	return tick.Moment{Time: wall(ns), Source: source, Text: fmt.Sprintf(format, a...)}
}

// insert inserts a moment by time.
func insert(list []tick.Moment, m tick.Moment) []tick.Moment {
	i, _ := slices.BinarySearchFunc(list, m.Time, func(x tick.Moment, at time.Time) int { return x.Time.Compare(at) })
	return slices.Insert(list, i, m)
}

// list names the first entries of a long list.
func list(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
