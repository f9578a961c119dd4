package causal

import (
	"cmp"
	"math/bits"
	"slices"

	"ingero/internal/govern"
	"ingero/pkg/events"
)

// roundLaunches returns a number that is equal for steps that should take the GPU equally long: exact
// for few launches, otherwise rounded to a quarter of a power of two. So a kind of steps has at most
// eight such numbers.
func roundLaunches(n uint32) uint32 {
	if n < 16 {
		return n
	}
	shift := bits.Len32(n) - 3
	return n >> shift << shift
}

// comparableSteps divides the steps of the kind with most of the time into lists of steps that should take
// the GPU equally long: with about as many launches. The first list has most of the time. Steps with
// uncounted launches join it if hardly any other steps with their closing call are in another list.
func comparableSteps(steps []*step) [][]*step {
	var counted, unknown []*step
	for _, x := range steps {
		if x.shed&uncounted == 0 {
			counted = append(counted, x)
		} else {
			unknown = append(unknown, x)
		}
	}
	if len(counted) == 0 {
		return nil
	}
	most := divide(counted, func(x *step) uint32 { return x.kind })[0]
	lists := divide(most, func(x *step) uint32 { return roundLaunches(x.launches) })
	closing := func(x *step) bool { return x.kind>>8 == most[0].kind>>8 }
	alike := slices.DeleteFunc(counted, func(x *step) bool { return !closing(x) })
	same := weightOf(lists[0])
	if other := weightOf(alike) - same; other*10 <= same {
		for _, x := range unknown {
			if closing(x) {
				lists[0] = append(lists[0], x)
			}
		}
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b *step) int { return cmp.Compare(a.from, b.from) })
	}
	return lists
}

// divide returns lists of the steps with equal keys, the list with most of the time first.
func divide(steps []*step, key func(*step) uint32) (out [][]*step) {
	type list struct {
		key   uint32
		steps []*step
		time  float64 // ns
	}
	var lists []list
	at := map[uint32]int{} // in lists, by key
	for _, x := range steps {
		k := key(x)
		i, ok := at[k]
		if !ok {
			i = len(lists)
			at[k], lists = i, append(lists, list{key: k})
		}
		lists[i].steps = append(lists[i].steps, x)
		lists[i].time += x.weight * float64(x.length)
	}
	slices.SortFunc(lists, func(a, b list) int { return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.key, b.key)) })
	for i := range lists {
		out = append(out, lists[i].steps)
	}
	return out
}

func weightOf(steps []*step) (n float64) {
	for _, x := range steps {
		n += x.weight
	}
	return n
}

// join adds the loss of other steps of the same kind, whose GPU time grew in the same shift. Steps in earlier
// shifts do not define what is normal.
func (s *shift) join(list []*step, earlier []shift) {
	var before, during []*step
	for _, x := range list {
		switch {
		case slices.ContainsFunc(earlier, func(o shift) bool { return x.from < o.to && o.from < x.to() }):
		case x.to() <= s.from:
			before = append(before, x)
		case x.from >= s.from && x.to() <= s.to:
			during = append(during, x)
		}
	}
	base := binsOf(before)
	if len(base) < shiftKnown || len(during) == 0 {
		return
	}
	o := shiftIn(list, base[max(0, len(base)-shiftBase):], s.from, s.to)
	if o.during-o.before < max(int64(shiftBy*float64(o.before)), shiftLeast) {
		return
	}
	for _, x := range o.spread {
		s.spread.put(x)
	}
	s.steps, s.slow, s.lost = s.steps+o.steps, s.slow+o.slow, s.spread.sum()
	s.from, s.to, s.ranks = min(s.from, o.from), max(s.to, o.to), s.ranks || o.ranks
}

// launchesMore reports whether a process launched more per step of its main thread in a shift than in the ten
// seconds before, and whether that explains at least half of the growth of the steps. A step's own number lacks
// the launches of other threads, such as the backward pass of PyTorch (pt_autograd_0). Only seconds count in
// which more than a quarter of the steps are of the kind of the shift.
func (w *Window) launchesMore(s *shift) bool {
	b := w.History(s.pid)
	if b == nil {
		return false
	}
	_, all := w.steps(s.pid)
	var inside []*step
	for i := range all {
		if x := &all[i]; !x.period && x.from >= s.from && x.to() <= s.to {
			inside = append(inside, x)
		}
	}
	if len(inside) == 0 {
		return false
	}
	kind := divide(inside, func(x *step) uint32 { return x.kind })[0][0].kind
	var before, during struct{ launches, steps, ns float64 }
	for i := range b.Seconds {
		x, sum := &b.Seconds[i], &before
		switch in := min(x.To, s.to) - max(x.From, s.from); {
		case w.unseen(s.pid, x.From, x.To)&govern.LaunchCounts != 0:
			continue
		case in*2 > x.To-x.From:
			sum = &during
		case x.To > s.from || x.To < s.from-10e9:
			continue
		}
		var steps, alike float64
		for j := range all {
			if to := all[j].to(); !all[j].period && x.From < to && to <= x.To {
				if steps += all[j].weight; all[j].kind == kind {
					alike += all[j].weight
				}
			}
		}
		if 4*alike > steps {
			sum.launches, sum.steps = sum.launches+float64(x.callsOf(events.ClassLaunch)), sum.steps+steps
			sum.ns += float64(x.To - x.From)
		}
	}
	if before.launches == 0 || during.steps == 0 {
		return false
	}
	const least = 1.1
	launches := during.launches / (during.steps + 1) * before.steps / before.launches // a step may be in two seconds
	growth := float64(s.during) / float64(max(s.before, 1))
	if length := during.ns / during.steps * before.steps / before.ns; length > 1 { // else there was a pause before
		growth = min(growth, length)
	}
	return launches > least && launches-1 >= (growth-1)/2
}
