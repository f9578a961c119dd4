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
			sum.add(y, v.count)
		}
		return true
	})
	v.tally = append(v.tally, sum)
}
