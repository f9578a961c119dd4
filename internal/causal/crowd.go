package causal

import "slices"

const (
	// crowdSize is the number of causes from which a rule with Crowd merges them: they have one
	// remedy.
	crowdSize = 3
	// crowdOf is the group of a merged cause.
	crowdOf = "crowd"
	// standsOut is the share of a rule's total loss from which a single cause is reported alone.
	standsOut = 0.5
)

// crowd merges the many causes of a rule that take the same resource from a thread, whether
// reportable or small. A cause that cost more than all others together is reported separately. A
// crowd reported before stays one while two causes are left.
func (e *Engine) crowd(v *verdict) {
	for r := range Rules {
		if Rules[r].Crowd {
			e.crowdOf(v, r)
		}
	}
}

func (e *Engine) crowdOf(v *verdict, rule int) {
	var reported int
	var all float64
	var most *tally
	for _, y := range v.tally {
		if y.rule != rule || y.group == several {
			continue
		}
		all += y.lost
		if v.enough(y) {
			reported++
		}
		if most == nil || y.lost > most.lost {
			most = y
		}
	}
	if most == nil {
		return
	}
	if most.lost < standsOut*all {
		most = nil
	} else {
		reported--
	}
	least := crowdSize
	if e.kept[chainID(v.s.pid, Rules[rule].Name, crowdOf)] != nil {
		least--
	}
	if reported < least {
		return
	}
	sum := &tally{rule: rule, group: crowdOf, by: map[uint32]float64{}, merged: []string{several}}
	v.tally = slices.DeleteFunc(v.tally, func(y *tally) bool {
		if y.rule != rule || y == most {
			return false
		}
		if y.group != several { // its small causes are added one by one
			sum.add(y)
		}
		return true
	})
	e.recount(v, sum)
	v.tally = append(v.tally, sum)
}

// add merges another cause of the same rule. The caller counts the slow steps when all are merged: see recount.
func (y *tally) add(o *tally) {
	y.lost += o.lost
	y.min += o.min
	y.max += o.max
	for c, ns := range o.by {
		y.by[c] += ns
	}
	for i, ns := range o.seconds {
		y.seconds[i] += ns
	}
	for _, x := range o.spread {
		y.spread.put(x)
	}
	y.merged = append(append(y.merged, o.group), o.merged...)
	y.see(o.first, 0)
	y.see(o.last, 0)
	y.see(o.worst, o.worstLost)
}

// recount counts the slow steps of merged causes. A step that several of them slowed counts once.
func (e *Engine) recount(v *verdict, y *tally) {
	y.slow, y.excess, y.counted = 0, 0, nil
	for i := range v.steps {
		x := &v.steps[i]
		if slices.ContainsFunc(x.excess(), func(g excess) bool { _, ok := y.by[g.cause]; return ok }) && e.slows(x, y.rule) {
			y.count(x)
		}
	}
}
