package causal

import "ingero/pkg/events"

// markOf returns the first rule that claims a step by its marks, counted from 1.
func markOf(r *record) uint8 {
	if r.marks == 0 {
		return 0
	}
	for i := range Rules {
		if x := &Rules[i]; r.marks&x.Mark != 0 && r.marks&x.Unless == 0 {
			return uint8(i + 1)
		}
	}
	return 0
}

// growMarked gives steps that a rule claims what they took longer than those of the
// same closing call that none does, whatever their kind, but for what is explained
// already: a part of a step that is named is not in the mark's account.
func (e *Engine) growMarked(steps []step, s *series) {
	done := map[events.Op]bool{}
	for i := range steps {
		if x := &steps[i]; x.mark != 0 && !x.period && !done[x.op] {
			done[x.op] = true
			e.growMarkedOf(steps, x.op, s)
		}
	}
}

// growMarkedOf does so for the steps that one operation closes.
func (e *Engine) growMarkedOf(steps []step, op events.Op, s *series) {
	v := e.scratch.values[:0]
	for i := range steps {
		if x := &steps[i]; x.mark == 0 && x.op == op {
			v = append(v, weighed{x.length - x.lost, x.weight})
		}
	}
	e.scratch.values = v
	if len(v) < minFree {
		return
	}
	base := quantile(thin(v), 0.5)
	for i := range steps {
		x := &steps[i]
		if x.mark == 0 || x.op != op {
			continue
		}
		x.normal = base
		more := x.length - x.lost - base
		if more < max(leastGrowth, base/20) {
			continue
		}
		p := Part{Victim: s.pid, NS: more, Op: x.op, Mark: x.mark, First: x.from, Last: x.to()}
		if n, ok := e.causes.of(&p); ok {
			x.grown[x.n] = grown{ns: more, cause: n, whole: true}
			x.n++
			x.lost += more
		}
	}
}
