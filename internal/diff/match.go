package diff

import (
	"cmp"
	"math"
	"slices"

	"ingero/pkg/events"
)

// pairing is two compared roles; a step is a call of anchor.
type pairing struct {
	a, b   *role
	anchor events.Op
}

const (
	leastCalls = 8    // of an operation, in each run, as a minimum for a step
	inStep     = 0.03 // largest deviation of an operation that keeps step
)

// pair matches the roles of two runs by program and rank. If each run has only one role, these are
// compared under any name.
func pair(a, b *Run) (pairs []pairing, onlyA, onlyB []Role) {
	left := slices.Clone(b.roles)
	for _, x := range a.roles {
		at := slices.IndexFunc(left, func(y *role) bool { return y.Role == x.Role })
		if at < 0 && len(a.roles) == 1 && len(b.roles) == 1 {
			at = 0
		}
		if at < 0 {
			onlyA = append(onlyA, x.Role)
			continue
		}
		pairs = append(pairs, pairing{x, left[at], anchor(x, left[at])})
		left = slices.Delete(left, at, at+1)
	}
	for _, y := range left {
		onlyB = append(onlyB, y.Role)
	}
	slices.SortFunc(pairs, func(x, y pairing) int { return byTime(x.a, y.a) })
	return pairs, onlyA, onlyB
}

// anchor finds the operation whose calls count the steps of two runs. Most operations have as many
// calls per step in both, so their rates have one ratio; an operation that a program change calls
// more often stands out. Of those that keep step, it returns the one with the most GPU wait time,
// or else the one called least often, but all the time. It returns 0 if there is none.
func anchor(a, b *role) events.Op {
	type candidate struct {
		op    events.Op
		sync  bool
		ratio float64 // logarithm
		ns    uint64
		calls uint64
		often bool
	}
	var all []candidate
	var ratios []float64
	for op, x := range a.sums {
		y := b.sums[op]
		if y == nil || min(x.calls, y.calls) < leastCalls || min(x.done, y.done) == 0 {
			continue
		}
		row := op.Row()
		c := candidate{op: op, sync: row != nil && row.Class == events.ClassSync, ns: x.ns + y.ns, calls: x.calls + y.calls,
			ratio: math.Log(float64(y.calls) / float64(b.blocks) / float64(x.calls) * float64(a.blocks)),
			often: 2*x.blocks >= a.blocks && 2*y.blocks >= b.blocks}
		all = append(all, c)
		ratios = append(ratios, c.ratio)
		if c.sync { // these are preferred, where there are few
			ratios = append(ratios, c.ratio)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(ratios)
	common := ratios[(len(ratios)-1)/2]
	all = slices.DeleteFunc(all, func(c candidate) bool { return math.Abs(c.ratio-common) > inStep })
	slices.SortFunc(all, func(x, y candidate) int {
		if x.sync != y.sync {
			return before(x.sync)
		}
		if x.sync {
			return cmp.Or(cmp.Compare(y.ns, x.ns), cmp.Compare(x.op, y.op))
		}
		if x.often != y.often {
			return before(x.often)
		}
		return cmp.Or(cmp.Compare(x.calls, y.calls), cmp.Compare(x.op, y.op))
	})
	return all[0].op
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}
