package causal

import (
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// maxChains bounds the chains below HIGH.
const maxChains = 256

// kept is a chain that the engine reports.
type kept struct {
	tick.Chain
	begins bool // no earlier tick has its loss
}

// reportChains returns the chains of the findings, and earlier chains that are still kept.
func (e *Engine) reportChains(found []*Finding, t *tick.Tick) []tick.Chain {
	again := map[string]bool{}
	for _, x := range found {
		again[x.id] = true
		c := e.chain(x, t)
		old := e.kept[c.ID]
		if old == nil && len(e.kept) >= maxChains && c.Severity < tick.High {
			continue // a chain that makes room would count as revised
		}
		if !c.Over(t.Time) && (old == nil || c.To.After(old.To) || e.sees(&old.Chain)) {
			e.kept[c.ID] = &kept{*c, old == nil || c.From.After(old.To)}
		}
	}
	for id, c := range e.kept {
		if c.Over(t.Time) || !again[id] && e.sees(&c.Chain) {
			delete(e.kept, id)
		}
	}
	chains := make([]tick.Chain, 0, len(e.kept))
	for _, c := range e.kept {
		c.begin()
		chains = append(chains, c.Chain)
	}
	tick.SortChains(chains)
	return chains
}

// sees reports whether all steps of a chain are still in the window. If they are and the chain is
// not found again, it was judged on too little data.
func (e *Engine) sees(c *tick.Chain) bool {
	s := e.series[c.TID]
	return s != nil && s.pid == c.PID && c.From.Unix() > s.newest-windowSeconds
}

// begin adds the loss before the first whole bin to Spread if no earlier tick had it.
func (c *kept) begin() {
	if !c.begins {
		return
	}
	c.begins = false
	start := stats.Floor(c.From.UnixNano(), int64(tick.SpreadStep))
	rest := c.Lost - time.Duration(bins(c.Spread).sum())
	if len(c.Spread) > 0 && start < c.Spread[0].Start && rest > 0 {
		c.Spread = slices.Insert(c.Spread, 0, tick.Loss{Start: start, Lost: rest})
	}
}
