package causal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// about says whether a sum of the host is of the time of a chain, or a second around it.
func about(h *HostAt, c *tick.Chain) bool {
	return h.To >= c.From.UnixNano()-1e9 && h.From <= c.To.UnixNano()+1e9
}

// sum adds up what happened of a kind to a process about the time of a chain, with
// PID 0 to any.
func (f *Facts) sum(kind tick.HostEvent, pid uint32, c *tick.Chain) HostAt {
	return f.sumOf(kind, c, func(h *HostAt) bool { return pid == 0 || h.PID == pid })
}

// sumOf adds up what happened of a kind about the time of a chain, of those that are asked for.
func (f *Facts) sumOf(kind tick.HostEvent, c *tick.Chain, wanted func(*HostAt) bool) (out HostAt) {
	for i := range f.e.host {
		h := &f.e.host[i]
		if h.Kind != kind || !about(h, c) || !wanted(h) {
			continue
		}
		if out.From == 0 {
			out = *h
			continue
		}
		out.To = h.To
		out.Add(&h.HostSum)
	}
	return out
}

// name is what a process is called, by whatever tells of it.
func (f *Facts) name(pid uint32) (events.Name, bool) {
	for _, list := range [][]tick.Process{f.Tick.Processes, f.Tick.Others} {
		for i := range list {
			if list[i].PID == pid && list[i].Comm != "" {
				return events.NameOf(list[i].Comm), true
			}
		}
	}
	for i := range f.e.host {
		if h := &f.e.host[i]; h.PID == pid && h.Comm != "" {
			return events.NameOf(h.Comm), true
		}
	}
	return events.Name{}, false
}

// shareWith is the share of the steps of a process's main thread that have a part of a
// rule, however small.
func (f *Facts) shareWith(pid uint32, rule string) float64 {
	_, steps := f.steps(pid)
	n := ruleNamed(rule)
	var all, with float64
	for i := range steps {
		x := &steps[i]
		all += x.weight
		for _, p := range x.parts[:x.nparts] {
			if int(f.e.causes.list[p.cause].id.rule) == n {
				with += x.weight
				break
			}
		}
	}
	return with / max(all, 1)
}

// since says which share of what a chain lost was lost from a time on (Unix ns), and how
// many times as much of the time that was as before.
func (f *Facts) since(c *tick.Chain, at int64) (share, times float64) {
	s := f.e.series[c.TID]
	if s == nil || s.pid != c.PID {
		return 0, 0
	}
	rule := ruleNamed(c.Rule)
	steps := f.e.excess(s)
	first := at
	var before, after float64
	for i := range steps {
		x := &steps[i]
		first = min(first, x.from)
		for _, g := range x.grown[:x.n] {
			switch lost := x.weight * x.took(g); {
			case int(f.e.causes.list[g.cause].id.rule) != rule:
			case x.to() > at:
				after += lost
			default:
				before += lost
			}
		}
	}
	if after == 0 {
		return 0, 0
	}
	rate := before / float64(max(at-first, 1))
	return after / (before + after), after / float64(max(c.To.UnixNano()-at, 1)) / max(rate, 1e-9)
}

// cpuBeside is how much longer steps in which something of a chain was lost were on a CPU than
// others of their kind.
func (f *Facts) cpuBeside(c *tick.Chain) time.Duration {
	s := f.e.series[c.TID]
	if s == nil || s.pid != c.PID {
		return 0
	}
	rule := ruleNamed(c.Rule)
	steps := f.e.excess(s)
	lost := func(x *step) bool {
		return slices.ContainsFunc(x.grown[:x.n], func(g grown) bool { return int(f.e.causes.list[g.cause].id.rule) == rule })
	}
	free := map[uint32][]weighed{}
	for i := range steps {
		if x := &steps[i]; !lost(x) {
			free[x.kind] = append(free[x.kind], weighed{x.cpu, x.weight})
		}
	}
	normal := map[uint32]int64{}
	for kind, v := range free {
		if len(v) >= minFree {
			normal[kind] = quantile(v, 0.5)
		}
	}
	var sum float64
	for i := range steps {
		if base, ok := normal[steps[i].kind]; ok && lost(&steps[i]) {
			sum += steps[i].weight * float64(max(steps[i].cpu-base, 0))
		}
	}
	return time.Duration(sum)
}

// scale leaves a share of what a chain says was lost.
func scale(c *tick.Chain, share float64) {
	for _, d := range []*time.Duration{&c.Lost, &c.LostMin, &c.LostMax} {
		*d = time.Duration(float64(*d) * share)
	}
}

// soon is how long after an event what follows from it may begin, ns: what was queued
// or read ahead is used up first.
const soon = 2e9

// stalled says by how much the steps of a process's main thread that something in
// [from, to] fell into, or soon after, took longer than normal, ns, and when the last of
// them ended; to the last tick, where it has made no step since.
func (f *Facts) stalled(pid uint32, from, to int64) (tid uint32, lost, until int64) {
	tid, steps := f.steps(pid)
	until = to
	var last int64
	lengths := make([]weighed, 0, len(steps))
	for i := range steps {
		last = max(last, steps[i].to())
		lengths = append(lengths, weighed{steps[i].length, steps[i].weight})
	}
	normal := quantile(lengths, 0.5)
	for i := range steps {
		x := &steps[i]
		if x.to() > from && x.from < to+soon && x.length > 2*normal {
			lost += x.length - normal
			until = max(until, x.to())
		}
	}
	if now := f.Now(); last != 0 && last < to+soon && now-last > 5*normal+1e9/2 {
		return tid, max(now-last-normal, 0), now
	}
	return tid, lost, until
}

// slowerBy is how many times as long steps are that are slower for good.
const slowerBy = 1.2

// slower says by how much the steps of a process's main thread since a time (Unix ns) took
// longer than those before, ns, if they did by much; 0, if not.
func (f *Facts) slower(pid uint32, since int64) int64 {
	_, steps := f.steps(pid)
	var before, after struct{ steps, length float64 }
	for i := range steps {
		x := &steps[i]
		sum := &before
		if x.from >= since {
			sum = &after
		}
		sum.steps += x.weight
		sum.length += x.weight * float64(x.length)
	}
	normal := before.length / max(before.steps, 1)
	if before.steps < minFree || after.steps < minFree || after.length < slowerBy*normal*after.steps {
		return 0
	}
	return int64(after.length - normal*after.steps)
}

func moment(ns int64, source, format string, a ...any) tick.Moment {
	return tick.Moment{Time: wall(ns), Source: source, Text: fmt.Sprintf(format, a...)}
}

// insert puts a moment where it belongs.
func insert(list []tick.Moment, m tick.Moment) []tick.Moment {
	i, _ := slices.BinarySearchFunc(list, m.Time, func(x tick.Moment, at time.Time) int { return x.Time.Compare(at) })
	return slices.Insert(list, i, m)
}

// list names the first of many.
func list(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// brief says whether a culprit was at work for no longer than some time, ns, and is no more.
func (f *Facts) brief(victim uint32, rule string, culprit uint32, most int64) bool {
	r := ruleNamed(rule)
	for i := range f.e.causes.list {
		if x := &f.e.causes.list[i]; x.id.victim == victim && int(x.id.rule) == r && x.id.key.ID == culprit {
			return x.last-x.first <= most && f.Now()-x.last > overAfter
		}
	}
	return false
}

// overAfter is for how long one that is no more at work was not seen, ns.
const overAfter = 200e6
