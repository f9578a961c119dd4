package causal

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// maxCulprits is how many of a chain are named.
const maxCulprits = 8

// chain tells what one cause cost.
func (e *Engine) chain(v *verdict, y *tally, t *tick.Tick) tick.Chain {
	r := &Rules[y.rule]
	p50, p99, without := e.lengths(v, y)
	c := tick.Chain{
		ID: chainID(v.s.pid, r.Name, y.group), Rule: r.Name, Severity: severity(y.lost, float64(v.span)),
		PID: v.s.pid, TID: v.s.tid, Op: y.worst.op,
		From: wall(y.first.from), To: wall(y.last.to()),
		Lost: time.Duration(y.lost), LostMin: time.Duration(min(y.min, (1-r.vague())*y.lost)), LostMax: time.Duration(max(y.max, (1+r.vague())*y.lost)),
		Window: time.Duration(v.span), Excess: time.Duration(max(v.excess, y.lost)),
		Steps: int(v.count + 0.5), Slow: int(y.slow + 0.5),
		Confidence: confidence(y),
		StepP50:    time.Duration(p50), StepP99: time.Duration(p99), Without: time.Duration(without),
		Culprits: e.culprits(v, y),
		NotIt:    e.notIt(v, y),
		Baseline: baseline(r, y),
		Spread:   v.spread(y),
	}
	if op := e.opOf(y); op != 0 {
		c.Op = op
	}
	if o := ofOp(t, c.PID, c.Op); o != nil {
		quantiles(&c, o)
	}
	c.Timeline = e.timeline(v, y, &c)
	e.weaken(&c, r, v.unknown(), t.Time.UnixNano())
	return c
}

// spread is what a cause cost by time, in those stretches of which all is in the window.
// Of a step that is longer than one it cannot be told so.
func (v *verdict) spread(y *tally) (out []tick.Loss) {
	if y.worst.length > int64(tick.SpreadStep) {
		return nil
	}
	const step = int64(tick.SpreadStep)
	seen := (v.s.newest - windowSeconds + 1) * int64(time.Second)
	for at := y.first.from / step * step; at < y.last.to()+1; at += step {
		if at >= seen {
			out = append(out, tick.Loss{Start: at, Lost: time.Duration(*y.spread.at(at))})
		}
	}
	return out
}

func wall(ns int64) time.Time { return time.Unix(0, ns) }

// chainID is the same for the same cause of the same process.
func chainID(pid uint32, rule, group string) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d|%s|%s", pid, rule, group)
	return fmt.Sprintf("c-%08x", h.Sum32())
}

// confidence is the share of the slow steps' excess that the cause explains.
func confidence(y *tally) float64 {
	if y.excess <= 0 {
		return 0
	}
	return min(y.lost/y.excess, 1)
}

// opOf is the operation that a cause is in, 0 where it is in no certain one.
func (e *Engine) opOf(y *tally) events.Op {
	for _, n := range byLost(y) {
		return e.causes.list[n].id.key.Op
	}
	return 0
}

// byLost returns a cause's culprits, the one that took most first.
func byLost(y *tally) []uint32 {
	list := make([]uint32, 0, len(y.by))
	for n := range y.by {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(y.by[b], y.by[a]), cmp.Compare(a, b))
	})
	return list
}

// culprits names those that took most.
func (e *Engine) culprits(v *verdict, y *tally) []tick.Culprit {
	var out []tick.Culprit
	for _, n := range byLost(y) {
		if len(out) == maxCulprits {
			break
		}
		x := &e.causes.list[n]
		cpus := slices.Clone(x.cpus)
		slices.Sort(cpus)
		out = append(out, tick.Culprit{
			Thread: x.who, Own: x.own, Agent: e.agent != 0 && x.who.PID == e.agent,
			What: x.what, CPUs: cpus, Lost: time.Duration(y.by[n]),
		})
	}
	return out
}
