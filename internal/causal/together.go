package causal

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
)

// together makes one chain of those of a process that a rule took over and that have the
// same first culprit: what one process started goes by many names. The largest of them
// stands for all.
func together(found []tick.Chain) (out []tick.Chain) {
	slices.SortFunc(found, func(a, b tick.Chain) int { return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.ID, b.ID)) })
	for i := range found {
		c := &found[i]
		first := slices.IndexFunc(out, func(o tick.Chain) bool { return alike(&o, c) })
		if first < 0 {
			out = append(out, *c)
			continue
		}
		o := &out[first]
		o.Lost += c.Lost
		o.LostMin += c.LostMin
		o.LostMax += c.LostMax
		o.Slow = min(o.Slow+c.Slow, o.Steps)
		o.Confidence = min(o.Confidence+c.Confidence, 1)
		o.Excess = max(o.Excess, c.Excess, o.Lost)
		o.Spread = spreadBoth(o.Spread, c.Spread)
		if c.From.Before(o.From) {
			o.From = c.From
		}
		if c.To.After(o.To) {
			o.To = c.To
		}
		o.Culprits = slices.Clone(o.Culprits)
		o.Culprits[0].Lost += c.Culprits[0].Lost
		o.Severity = max(o.Severity, severity(float64(o.Lost), float64(o.Window)))
	}
	return out
}

// alike says whether two chains are of one cause under two names.
func alike(o, c *tick.Chain) bool {
	r := ruleNamed(c.Rule)
	if r < 0 || Rules[r].Of == nil || o.Rule != c.Rule || o.PID != c.PID || len(o.Culprits) == 0 || len(c.Culprits) == 0 {
		return false
	}
	a, b := &o.Culprits[0], &c.Culprits[0]
	return a.Thread.PID == b.Thread.PID && (a.Thread.PID != 0 || a.What == b.What)
}

// spreadBoth adds up what two chains lost by time.
func spreadBoth(a, b []tick.Loss) []tick.Loss {
	out := slices.Clone(a)
	for _, x := range b {
		if i := slices.IndexFunc(out, func(o tick.Loss) bool { return o.Start == x.Start }); i >= 0 {
			out[i].Lost += x.Lost
			continue
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b tick.Loss) int { return cmp.Compare(a.Start, b.Start) })
	return out
}
