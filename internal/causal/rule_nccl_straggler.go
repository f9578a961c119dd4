package causal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// minLateSteps is the minimum number of steps for which a rank was late, unless one was long.
const minLateSteps = 3

var ncclStraggler = Rule{
	Name: "nccl-straggler", Needs: NeedState, Problems: []string{"1", "12", "20"}, Share: 0.01, Slow: minLateSteps,
	Doc:     "One rank entered collectives later than usual, and the other ranks waited for it.",
	Find:    (*Window).stragglers,
	Instead: []string{"gpu-slower", "gpu-shared", "lock-wait"},
}

// stragglers returns what the ranks of this machine lost to other ranks of this machine.
func (w *Window) stragglers() (out []Finding) {
	for _, b := range w.Histories() {
		for _, who := range w.lateRanks(b.PID) {
			if x, ok := w.lostTo(b.PID, who); ok {
				out = append(out, x)
			}
		}
	}
	return out
}

// lateRank is a rank with the times when another rank waited for it.
type lateRank struct {
	rank  tick.Rank
	comm  uint64 // in which it has that number
	times []tick.Straggler
}

// lateRanks returns the ranks that a process waited for, with the times, longest total first.
func (w *Window) lateRanks(pid uint32) (out []lateRank) {
	s := w.State(pid)
	if s == nil || len(w.devices.lates) == 0 {
		return nil
	}
	in := map[uint64]bool{}
	for i := range s.Comms.First {
		in[s.Comms.First[i].ID] = true
	}
	for _, l := range w.devices.lates {
		if l.Rank.PID == pid || !in[l.Comm] {
			continue
		}
		at := slices.IndexFunc(out, func(r lateRank) bool { return r.rank.PID == l.Rank.PID })
		if at < 0 {
			at, out = len(out), append(out, lateRank{rank: l.Rank, comm: l.Comm})
		}
		out[at].times = append(out[at].times, l)
	}
	for i := range out {
		slices.SortFunc(out[i].times, func(a, b tick.Straggler) int { return cmp.Compare(a.From, b.From) })
	}
	slices.SortFunc(out, func(a, b lateRank) int { return cmp.Compare(a.rank.PID, b.rank.PID) })
	return out
}

// within returns how much of [from, to] the rank was waited for, ns.
func (r *lateRank) within(from, to int64) (ns int64) {
	i, _ := slices.BinarySearchFunc(r.times, from, func(l tick.Straggler, from int64) int { return cmp.Compare(l.To, from) })
	until := from
	for ; i < len(r.times) && r.times[i].From < to; i++ {
		a, b := max(r.times[i].From, until), min(r.times[i].To, to)
		ns += max(b-a, 0)
		until = max(until, b)
	}
	return ns
}

// waited is a step of a waiting process.
type waited struct {
	*step
	lateness, lost int64
}

// lostTo returns what a process's steps lost to a late rank: their extra length over steps in which
// the rank was not later than usual, but at most its lateness.
func (w *Window) lostTo(pid uint32, who lateRank) (x Finding, ok bool) {
	tid, steps := w.steps(pid)
	list := make([]waited, 0, len(steps))
	lates := make([]weighted, 0, len(steps))
	for i := range steps {
		s := &steps[i]
		if s.period {
			continue
		}
		w := waited{step: s, lateness: who.within(s.from, s.to())}
		list = append(list, w)
		lates = append(lates, weighted{w.lateness, s.weight})
	}
	if len(list) < minLearn {
		return x, false
	}
	usual := quantile(lates, baselineQuantile)
	normal := normalOf(list, usual)
	x = Finding{PID: pid, TID: tid, Group: fmt.Sprint(who.rank.PID), Confidence: 0.9,
		Baseline: "steps in which the rank was no later than usual: " + span(usual) + " after the others"}
	first, last := list[0].from, list[0].to()
	var all, slow, lost float64
	var worst *waited
	for i := range list {
		w := &list[i]
		first, last = min(first, w.from), max(last, w.to())
		all += w.weight
		base, known := normal[w.kind]
		if w.lateness-usual < max(usual, leastGrowth) || !known {
			continue
		}
		if w.lost = min(w.lateness-usual, w.length-base); w.lost < max(leastSlow, base/100) {
			continue
		}
		slow, lost = slow+w.weight, lost+w.weight*float64(w.lost)
		x.cover(w.from, w.to())
		x.spread.add(w.from, w.to(), w.weight*float64(w.lost))
		x.Op = w.op
		if worst == nil || w.lost > worst.lost {
			worst = w
		}
	}
	x.Window, x.Steps, x.Slow, x.Lost = last-first, int(all+0.5), int(slow+0.5), int64(lost)
	x.Min, x.Max = x.Lost-x.Lost/10, x.Lost+x.Lost/10
	if worst == nil || x.Slow < minLateSteps && x.Lost < int64(decisiveLoss) {
		return x, false
	}
	x.Timeline = []tick.Moment{moment(worst.from, "CUDA", "slowest step: %s; the other ranks waited %s in collectives that %s had not entered", span(worst.length), span(worst.lateness), rankName(who.rank, w.numRanks(pid, who)))}
	x.Culprits = []tick.Culprit{w.straggler(pid, who, x.From, x.To, x.Lost)}
	return x, true
}

// normalOf returns the length of steps of each kind in which no rank was later than usual.
func normalOf(list []waited, usual int64) map[uint32]int64 {
	by := map[uint32][]weighted{}
	for i := range list {
		if w := &list[i]; w.lateness-usual < max(usual, leastGrowth) {
			by[w.kind] = append(by[w.kind], weighted{w.length - w.step.lost, w.weight})
		}
	}
	out := map[uint32]int64{}
	for kind, v := range by {
		if len(v) >= minFree {
			out[kind] = quantile(v, 0.5)
		}
	}
	return out
}

// numRanks returns the number of ranks of the communicator.
func (w *Window) numRanks(pid uint32, who lateRank) (n uint32) {
	if s := w.State(pid); s != nil {
		for i := range s.Comms.First {
			if c := &s.Comms.First[i]; c.ID == who.comm {
				n = c.Ranks
			}
		}
	}
	return n
}

// straggler returns a late rank as a culprit, with what delayed it.
func (w *Window) straggler(pid uint32, who lateRank, from, to, lost int64) tick.Culprit {
	name := w.called(who.rank.PID)
	c := tick.Culprit{Thread: events.Thread{PID: who.rank.PID, TID: who.rank.PID, Name: name}, Own: who.rank.PID == pid,
		What: rankName(who.rank, w.numRanks(pid, who)), Lost: time.Duration(lost)}
	if why := w.kept(who.rank.PID, from, to, lost); why != "" {
		c.What += ", " + why
	}
	return c
}

// kept describes what delayed a process in [from, to]: the cause of at least half of what others
// lost, beyond what is normal. "" if unknown.
func (w *Window) kept(pid uint32, from, to, lost int64) string {
	_, steps := w.steps(pid)
	sum := map[uint32]float64{}
	for i := range steps {
		x := &steps[i]
		if x.to() <= from || x.from >= to {
			continue
		}
		for _, g := range x.excess() {
			sum[g.cause] += x.weight * float64(g.ns)
		}
	}
	var most uint32
	for n, ns := range sum {
		if ns > sum[most] || ns == sum[most] && n < most {
			most = n
		}
	}
	if len(sum) > 0 && 2*sum[most] >= float64(lost) {
		c := &w.e.causes.list[most]
		return "delayed by " + culpritName(c) + " (" + Rules[c.id.rule].Name + ")"
	}
	for _, s := range shiftsOf(steps, 0) {
		if s.from < to && s.to > from && 2*s.lost >= lost {
			return "its GPU took longer (gpu-slower)"
		}
	}
	for _, way := range []struct {
		words string
		part  func(*step) int64
	}{{"it was blocked between its calls", func(x *step) int64 { return x.blocked }}, {"it ran on a CPU for longer", func(x *step) int64 { return x.cpu }}} {
		if 2*grew(steps, from, to, way.part) >= lost {
			return way.words
		}
	}
	return ""
}

// grew returns how much longer than usual a part of the steps in [from, to] was.
func grew(steps []step, from, to int64, part func(*step) int64) int64 {
	all := make([]weighted, 0, len(steps))
	for i := range steps {
		all = append(all, weighted{part(&steps[i]), steps[i].weight})
	}
	usual := quantile(all, baselineQuantile)
	var sum float64
	for i := range steps {
		if x := &steps[i]; x.to() > from && x.from < to {
			sum += x.weight * float64(part(x)-usual)
		}
	}
	return int64(sum)
}

// hasUntracedRanks reports whether a process is in a communicator with ranks that are not traced:
// mostly those on other machines.
func (w *Window) hasUntracedRanks(pid uint32) bool {
	s := w.State(pid)
	if s == nil {
		return false
	}
	traced := map[uint64]uint32{}
	for i := range w.Tick.States {
		for _, c := range w.Tick.States[i].Comms.First {
			traced[c.ID]++
		}
	}
	return slices.ContainsFunc(s.Comms.First, func(c tick.Comm) bool { return c.State == tick.CommActive && c.Ranks > traced[c.ID] })
}

// waitsForRanks reports whether a shift is a wait for other ranks: one of them was late or missing
// meanwhile.
func (w *Window) waitsForRanks(s *shift) bool {
	if !s.ranks {
		return false
	}
	var late int64
	for _, r := range w.lateRanks(s.pid) {
		late += r.within(s.from, s.to)
	}
	if late*2 > s.lost {
		return true
	}
	return slices.ContainsFunc(w.devices.called, func(c called) bool {
		return c.Since < s.to && c.to > s.from && c.entered(s.pid)
	})
}
