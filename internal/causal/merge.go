package causal

import (
	"cmp"
	"slices"
)

// merge adds up findings of one process that a rule took over and that have the same first culprit:
// programs with one parent have many names. The largest represents them all.
func merge(found []*Finding) (out []*Finding) {
	slices.SortFunc(found, func(a, b *Finding) int { return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.id, b.id)) })
	for _, x := range found {
		first := slices.IndexFunc(out, func(o *Finding) bool { return alike(o, x) })
		if first < 0 {
			out = append(out, x)
			continue
		}
		o := out[first]
		o.join(x)
		o.Culprits = slices.Clone(o.Culprits)
		o.Culprits[0].Lost += x.Culprits[0].Lost
	}
	return out
}

// join adds another finding's loss, but not its culprits.
func (x *Finding) join(y *Finding) {
	x.Lost += y.Lost
	x.Min += y.Min
	x.Max += y.Max
	x.onCPU = x.onCPU || y.onCPU
	x.Slow = min(x.Slow+y.Slow, x.Steps)
	x.Confidence = min(x.Confidence+y.Confidence, 1)
	x.excess = max(x.excess, y.excess, x.Lost)
	x.spread = spreadBoth(x.spread, y.spread)
	x.parts = append(append(append(x.parts, y.id), y.instead...), y.parts...)
	x.From, x.To = min(x.From, y.From), max(x.To, y.To)
	x.Severity = max(x.Severity, y.Severity, severity(float64(min(x.Lost, 2*x.Min)), float64(x.Window)))
}

// alike reports whether two findings have one cause under two names.
func alike(o, x *Finding) bool {
	if o.rule != x.rule || !o.taken && !x.taken || o.PID != x.PID || len(o.Culprits) == 0 || len(x.Culprits) == 0 {
		return false
	}
	a, b := &o.Culprits[0], &x.Culprits[0]
	return a.Thread.PID == b.Thread.PID && (a.Thread.PID != 0 || a.What == b.What)
}

// leaveOut drops findings that another one describes more exactly: see Rule.Instead. A dropped finding is
// noted in all findings that are left and drop it, also through another dropped one.
func leaveOut(found []*Finding) []*Finding {
	all := slices.Clone(found)
	found = slices.DeleteFunc(found, func(x *Finding) bool {
		return slices.ContainsFunc(all, func(o *Finding) bool { return o.drops(x) })
	})
	for _, o := range found {
		noted := []*Finding{o}
		for i := 0; i < len(noted); i++ {
			for _, x := range all {
				if !noted[i].drops(x) || slices.Contains(noted, x) {
					continue
				}
				noted = append(noted, x)
				o.instead = append(append(o.instead, x.id), x.instead...)
				o.parts = append(o.parts, x.parts...)
			}
		}
	}
	return found
}

// drops reports whether a finding describes the loss of another one more exactly. Sleeps between tries to get
// a file lock are a loss of their own: no other rule measures them.
func (x *Finding) drops(o *Finding) bool {
	return x.PID == o.PID && slices.Contains(x.rule.Instead, o.rule.Name) && o.Group != fileLock && o.From <= x.To && x.From <= o.To && mayBe(x, o)
}

// mayBe reports whether one finding may be the same loss as another one that describes it less exactly.
// The cost of a few calls is not that of many others at the same time.
func mayBe(o, x *Finding) bool {
	const most = 3 // times as much, measured in two ways
	same := o.Op != 0 && x.Op != 0 && (classOf(o.Op) == classOf(x.Op) || memoryOp(classOf(o.Op)) && memoryOp(classOf(x.Op)))
	return o.rule.Share == 0 || same || x.Lost <= most*o.Lost
}
