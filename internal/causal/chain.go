package causal

import (
	"fmt"
	"hash/fnv"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// maxCulprits bounds the culprits named by a chain.
const maxCulprits = 8

// chain returns the chain of a finding.
func (e *Engine) chain(x *Finding, t *tick.Tick) *tick.Chain {
	for i := range x.Culprits {
		c := &x.Culprits[i]
		c.Agent = e.agent != 0 && c.Thread.PID == e.agent
	}
	c := &tick.Chain{
		ID: x.id, Rule: x.rule.Name, Severity: x.Severity, PID: x.PID, TID: x.TID, Op: x.Op, Stack: x.Stack,
		From: wall(x.From), To: wall(x.To), Lost: time.Duration(x.Lost), LostMin: time.Duration(x.Min), LostMax: time.Duration(x.Max),
		Window: time.Duration(x.Window), Excess: time.Duration(x.excess), Steps: x.Steps, Slow: x.Slow, Confidence: x.Confidence,
		Baseline: x.Baseline, StepP50: time.Duration(x.P50), StepP99: time.Duration(x.P99), Without: time.Duration(x.Without),
		Spread: x.spread, Culprits: x.Culprits, Timeline: x.Timeline, NotIt: x.ruledOut,
	}
	if o := opEntry(t, c.PID, c.Op); o != nil {
		quantiles(c, o)
	}
	return c
}

func wall(ns int64) time.Time { return time.Unix(0, ns) }

// chainID returns an ID that is stable for one cause of one process.
func chainID(pid uint32, rule, group string) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d|%s|%s", pid, rule, group)
	return fmt.Sprintf("c-%08x", h.Sum32())
}

// opEntry returns a tick's entry for an operation of a process.
func opEntry(t *tick.Tick, pid uint32, op events.Op) *tick.Op {
	for i := range t.Ops {
		if o := &t.Ops[i]; o.PID == pid && o.Op == op {
			return o
		}
	}
	return nil
}

// quantiles sets how long the calls of a chain's operation take.
func quantiles(c *tick.Chain, o *tick.Op) {
	d := stats.Durations{Seen: o.Dur, All: o.Hist, Thinned: o.Thinned}
	if ns, ok := d.Quantile(0.5); ok {
		c.OpP50 = time.Duration(ns)
	}
	if ns, ok := d.Quantile(0.99); ok {
		c.OpP99 = time.Duration(ns)
	}
}
