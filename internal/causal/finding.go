package causal

import (
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Finding is what a rule has found by itself. Times are Unix ns.
type Finding struct {
	PID, TID uint32
	Op       events.Op
	Group    string // tells findings of one rule and process apart
	From, To int64
	// Lost is in [Min, Max], ns; both 0: exactly Lost. Window is the time looked at, 0:
	// what is known of the process, a minute at most.
	Lost, Min, Max, Window int64
	Steps, Slow            int
	P50, P99, Without      int64 // as in tick.Chain, ns; 0: not known
	// Severity is by the share of the time that was lost where it is 0. A process that
	// cannot go on has lost all: High.
	Severity   tick.Severity
	Confidence float64 // 0: 1
	Baseline   string
	Culprits   []tick.Culprit
	Timeline   []tick.Moment
}

// findings returns the chains of all rules that find by themselves.
func (e *Engine) findings(f *Facts) (out []tick.Chain) {
	for i := range Rules {
		if Rules[i].Find == nil {
			continue
		}
		for _, x := range Rules[i].Find(f) {
			if c, ok := e.found(&Rules[i], &x, f); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

// found makes a chain of a finding; ok is false where it cost too little.
func (e *Engine) found(r *Rule, x *Finding, f *Facts) (c tick.Chain, ok bool) {
	if e.abstains(r, x.PID, x.From, x.To) {
		return c, false
	}
	if x.Window == 0 {
		x.Window = e.known(x.PID, f)
	}
	if x.Min == 0 && x.Max == 0 {
		x.Min, x.Max = x.Lost, x.Lost
	}
	if x.Severity == 0 {
		if float64(x.Lost) < r.Share*float64(x.Window) || x.Lost < int64(leastLost) {
			return c, false
		}
		x.Severity = severity(float64(x.Lost), float64(x.Window))
	}
	if x.Confidence == 0 {
		x.Confidence = 1
	}
	for i := range x.Culprits {
		c := &x.Culprits[i]
		c.Agent = e.agent != 0 && c.Thread.PID == e.agent
	}
	c = tick.Chain{
		ID: chainID(x.PID, r.Name, x.Group), Rule: r.Name, Severity: x.Severity, PID: x.PID, TID: x.TID, Op: x.Op,
		From: wall(x.From), To: wall(x.To), Lost: time.Duration(x.Lost), LostMin: time.Duration(min(float64(x.Min), (1-r.vague())*float64(x.Lost))),
		LostMax: time.Duration(max(float64(x.Max), (1+r.vague())*float64(x.Lost))), Window: time.Duration(x.Window), Excess: time.Duration(x.Lost),
		Steps: x.Steps, Slow: x.Slow, Confidence: x.Confidence, Baseline: x.Baseline, Culprits: x.Culprits, Timeline: x.Timeline,
		StepP50: time.Duration(x.P50), StepP99: time.Duration(x.P99), Without: time.Duration(x.Without),
	}
	if o := ofOp(f.Tick, c.PID, c.Op); o != nil {
		quantiles(&c, o)
	}
	e.weaken(&c, r, 0, f.Now())
	return c, true
}

// known is for how long a process has been looked at, ns, a minute at most.
func (e *Engine) known(pid uint32, f *Facts) int64 {
	if b := e.books[pid]; b != nil && len(b.Seconds) > 0 {
		return b.Seconds[len(b.Seconds)-1].To - b.Seconds[0].From
	}
	return max(int64(f.Tick.Window), 1)
}

func severity(lost, span float64) tick.Severity {
	switch share := lost / span; {
	case share >= highShare:
		return tick.High
	case share >= mediumShare:
		return tick.Medium
	}
	return tick.Low
}

// quantiles tells how long the calls of a chain's operation take.
func quantiles(c *tick.Chain, o *tick.Op) {
	d := stats.Durations{Seen: o.Dur, All: o.Hist, Thinned: o.Thinned}
	if ns, ok := d.Quantile(0.5); ok {
		c.OpP50 = time.Duration(ns)
	}
	if ns, ok := d.Quantile(0.99); ok {
		c.OpP99 = time.Duration(ns)
	}
}

// instead gives chains to the rules that have them instead (Of), and leaves out those
// that another says better.
func (e *Engine) instead(found []tick.Chain, f *Facts) []tick.Chain {
	found = slices.DeleteFunc(found, func(c tick.Chain) bool {
		r := ruleNamed(c.Rule)
		return r >= 0 && Rules[r].Tell != nil && !Rules[r].Tell(&c, f)
	})
	for i := range found {
		c := &found[i]
		for r := range Rules {
			if x := &Rules[r]; x.When != nil && slices.Contains(x.Of, c.Rule) && !e.abstains(x, c.PID, c.From.UnixNano(), c.To.UnixNano()) && x.When(c, f) {
				c.ID, c.Rule = chainID(c.PID, x.Name, c.ID), x.Name
				break
			}
		}
	}
	found = together(found)
	all := slices.Clone(found)
	return slices.DeleteFunc(found, func(c tick.Chain) bool {
		return slices.ContainsFunc(all, func(o tick.Chain) bool {
			r := ruleNamed(o.Rule)
			return r >= 0 && o.PID == c.PID && slices.Contains(Rules[r].Instead, c.Rule) && !c.From.After(o.To) && !o.From.After(c.To)
		})
	})
}
