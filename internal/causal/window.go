package causal

import (
	"cmp"
	"maps"
	"slices"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// Window is what a rule sees: the steps of the last minute, the ticks' facts about processes and
// the machine, and the findings of other rules.
type Window struct {
	Tick    *tick.Tick // the last one
	e       *Engine
	host    []HostSample // oldest first
	devices *devices
	// Computed on first use.
	histories []*ProcessHistory // by PID
	main      map[uint32]uint32 // main threads, by process
	judged    map[uint32][]step // steps of main threads
	processes map[uint32]*process
	shifts    []shift // of the GPU time of steps
	shifted   bool
	findings
}

func (e *Engine) window(t *tick.Tick) *Window {
	w := &Window{Tick: t, e: e, host: e.host, devices: &e.devices, main: e.mainThreads(), judged: map[uint32][]step{}, processes: map[uint32]*process{}}
	if x := &e.scratch; len(x.main) > len(w.main) {
		x.main = slices.Delete(x.main, len(w.main), len(x.main))
	}
	return w
}

// Now returns the end of the last tick in Unix ns.
func (w *Window) Now() int64 { return w.Tick.Time.UnixNano() }

// Histories returns the histories of all processes, by PID.
func (w *Window) Histories() []*ProcessHistory {
	if w.histories == nil {
		w.histories = slices.SortedFunc(maps.Values(w.e.histories), func(a, b *ProcessHistory) int { return cmp.Compare(a.PID, b.PID) })
	}
	return w.histories
}

// History returns the history of a process, or nil.
func (w *Window) History(pid uint32) *ProcessHistory { return w.e.histories[pid] }

// State returns the state derived from a process's calls, as of the last tick, or nil.
func (w *Window) State(pid uint32) *tick.State { return stateIn(w.Tick, pid) }

// hasInputs reports whether an input was seen.
func (w *Window) hasInputs(need Needs) bool { return w.e.have&need == need }

// unseen returns the inputs of a process that were shed in some of [from, to].
func (w *Window) unseen(pid uint32, from, to int64) govern.Facts { return w.e.lost(pid, from, to) }

// steps returns the main thread of a process, which is the one with the most steps, and its steps
// by kind and time, with excess and loss. They are valid as long as the window. A thread without
// real steps is no main thread.
func (w *Window) steps(pid uint32) (tid uint32, steps []step) {
	tid, ok := w.main[pid]
	if !ok {
		return 0, nil
	}
	return tid, w.stepsOf(tid)
}

// stepsOf returns the steps of a thread. If it is not the main thread of its process, they are
// valid until the next call.
func (w *Window) stepsOf(tid uint32) []step {
	s := w.e.series[tid]
	if s == nil {
		return nil
	}
	x := &w.e.scratch
	if main, ok := w.main[s.pid]; !ok || main != tid {
		x.steps = w.e.steps(s, x.steps[:0])
		return x.steps
	}
	steps, ok := w.judged[tid]
	if !ok {
		n := len(w.judged)
		if n == len(x.main) {
			x.main = append(x.main, nil)
		}
		x.main[n] = w.e.steps(s, x.main[n][:0])
		steps = x.main[n]
		w.judged[tid] = steps
	}
	return steps
}

// mainThreads returns the main thread of each process.
func (e *Engine) mainThreads() map[uint32]uint32 {
	out, most := map[uint32]uint32{}, map[uint32]int{}
	for tid, s := range e.series {
		if s.period {
			continue
		}
		n := 0
		for i := range s.slots {
			for _, t := range s.slots[i].strata() {
				n += t.seen
			}
		}
		if old, ok := out[s.pid]; !ok || n > most[s.pid] || n == most[s.pid] && tid < old {
			out[s.pid], most[s.pid] = tid, n
		}
	}
	return out
}

// shareWith returns the share of the main thread's steps that have a part of a rule, however small.
func (w *Window) shareWith(pid uint32, rule string) float64 {
	_, steps := w.steps(pid)
	r := uint8(ruleNamed(rule))
	var all, with float64
	for i := range steps {
		x := &steps[i]
		all += x.weight
		for _, p := range x.parts[:x.nparts] {
			if w.e.causes.list[p.cause].id.rule == r {
				with += x.weight
				break
			}
		}
	}
	return with / max(all, 1)
}

// stepsFound returns the steps of a finding's thread.
func (w *Window) stepsFound(x *Finding) []step {
	if s := w.e.series[x.TID]; s == nil || s.pid != x.PID {
		return nil
	}
	return w.stepsOf(x.TID)
}

// cause returns the cause of an excess.
func (w *Window) cause(g excess) *cause { return &w.e.causes.list[g.cause] }

// since returns the share of a finding's loss from a time on (Unix ns), and the ratio of the lost
// shares of time after and before.
func (w *Window) since(found *Finding, at int64) (share, times float64) {
	steps := w.stepsFound(found)
	first := at
	var before, after float64
	for i := range steps {
		x := &steps[i]
		first = min(first, x.from)
		for _, g := range x.excess() {
			switch lost := x.weight * x.lossBy(g); {
			case w.cause(g).rule() != found.rule:
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
	return after / (before + after), after / float64(max(found.To-at, 1)) / max(rate, 1e-9)
}

// cpuBeside returns how much longer than others of their kind a finding's slow steps were on a CPU,
// ns.
func (w *Window) cpuBeside(found *Finding) int64 {
	steps := w.stepsFound(found)
	lost := func(x *step) bool {
		return slices.ContainsFunc(x.excess(), func(g excess) bool { return w.cause(g).rule() == found.rule })
	}
	free := map[uint32][]weighted{}
	for i := range steps {
		if x := &steps[i]; !lost(x) {
			free[x.kind] = append(free[x.kind], weighted{x.cpu, x.weight})
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
	return int64(sum)
}

// soon is the longest delay of an event's effect, ns: queued work and read-ahead data are used up
// first.
const soon = 2e9

// nearlyAll is the quantile of the steps before an event whose length is still usual: programs do longer
// work now and then. At least leastRecur steps must have been that long.
const (
	nearlyAll  = 0.99
	leastRecur = 3
)

// until returns the end of a process, or of the last tick if it still runs, Unix ns.
func (w *Window) until(pid uint32) int64 {
	if b := w.History(pid); b != nil {
		if b.Ended != 0 {
			return min(b.Ended, w.Now())
		}
		return w.Now()
	}
	for i := range w.Tick.Processes { // its history may have made room for others
		if p := &w.Tick.Processes[i]; p.PID == pid && !p.Ended.IsZero() {
			return min(p.Ended.UnixNano(), w.Now())
		}
	}
	return w.Now()
}

// stalled returns how much longer than normal the main thread's steps in or soon after [from, to]
// took, ns, and when the last of them ended. Time before from does not count. Without a step since, the
// time runs to the last tick or the end of the process. Steps of up to twice the given quantile of the
// steps before are usual.
func (w *Window) stalled(pid uint32, from, to int64, usualSteps float64) (tid uint32, lost, until int64) {
	tid, steps := w.steps(pid)
	until = to
	var last int64
	lengths := make([]weighted, 0, len(steps))
	var before []weighted
	for i := range steps {
		x := &steps[i]
		last = max(last, x.to())
		lengths = append(lengths, weighted{x.length, x.weight})
		if x.to() <= from && !x.early {
			before = append(before, weighted{x.length, x.weight})
		}
	}
	normal := quantile(lengths, 0.5)
	usual := normal
	if len(before) >= minFree {
		usual = max(usual, min(quantile(before, usualSteps), reachedBy(before, leastRecur)))
	}
	for i := range steps {
		x := &steps[i]
		if x.to() > from && x.from < to+soon && x.length > 2*usual {
			lost += min(x.length-normal, x.to()-from)
			until = max(until, x.to())
		}
	}
	if now := w.until(pid); last != 0 && last < to+soon && now-last > max(5*normal+1e9/2, 2*usual) {
		return tid, max(now-max(last+normal, from), 0), now
	}
	return tid, lost, until
}

// reachedBy returns the longest duration that at least n of the values reach, 0 if there are fewer.
func reachedBy(x []weighted, n float64) int64 {
	slices.SortFunc(x, func(a, b weighted) int { return cmp.Compare(b.v, a.v) })
	for i := range x {
		if n -= x[i].w; n <= 0 {
			return x[i].v
		}
	}
	return 0
}

// slowerBy is the smallest ratio of lengths of steps that are slower for good.
const slowerBy = 1.2

// slower returns how much longer the main thread's steps after a time (Unix ns) took than those
// before, ns, or 0 if the ratio is small.
func (w *Window) slower(pid uint32, since int64) int64 {
	_, steps := w.steps(pid)
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

// brief reports whether a culprit was active for at most most ns, and no longer is.
func (w *Window) brief(victim uint32, rule string, culprit uint32, most int64) bool {
	r := ruleNamed(rule)
	for i := range w.e.causes.list {
		if x := &w.e.causes.list[i]; x.id.victim == victim && int(x.id.rule) == r && x.id.key.ID == culprit {
			return x.last-x.first <= most && w.Now()-x.last > overAfter
		}
	}
	return false
}

// overAfter is the time without activity after which a culprit is no longer active, ns.
const overAfter = 200e6
