package causal

import "slices"

const (
	// crowdSize is how many causes of a rule that says so are one: they have one remedy.
	crowdSize = 3
	// crowdOf is the group of a cause that stands for many.
	crowdOf = "crowd"
	// standsOut is the share of what all of a rule cost from which on one of them is told alone.
	standsOut = 0.5
)

// crowd makes one cause of the many of a rule that take the same thing from a thread, each of
// which is told or small. One that cost more than all others is told beside it. A crowd that was
// told before stays one while two are left.
func (e *Engine) crowd(v *verdict) {
	for r := range Rules {
		if Rules[r].Crowd {
			e.crowdOf(v, r)
		}
	}
}

func (e *Engine) crowdOf(v *verdict, rule int) {
	var told int
	var all float64
	var most *tally
	for _, y := range v.tally {
		if y.rule != rule || y.group == several {
			continue
		}
		all += y.lost
		if v.enough(y) {
			told++
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
		told--
	}
	least := crowdSize
	if e.kept[chainID(v.s.pid, Rules[rule].Name, crowdOf)] != nil {
		least--
	}
	if told < least {
		return
	}
	sum := &tally{rule: rule, group: crowdOf, by: map[uint32]float64{}}
	v.tally = slices.DeleteFunc(v.tally, func(y *tally) bool {
		if y.rule != rule || y == most {
			return false
		}
		if y.group != several { // they are in it by themselves
			sum.add(y, v.count)
		}
		return true
	})
	v.tally = append(v.tally, sum)
}
