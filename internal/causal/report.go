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
	took           string   // as in Finding
	instead, parts []string // as in Finding
	by             string   // ID of the chain of Replaced
	begins         bool     // no earlier tick has its loss
}

// reportChains returns the chains of the findings, and earlier chains that are still kept.
func (e *Engine) reportChains(found []*Finding, t *tick.Tick) []tick.Chain {
	again, leftOut := map[string]bool{}, map[string]bool{}
	for _, x := range found {
		again[x.id] = true
		c := e.chain(x, t)
		old := e.kept[c.ID]
		if old == nil && len(e.kept) >= maxChains && c.Severity < tick.High {
			if leftOut[c.ID] = true; !e.leftOut[c.ID] {
				e.left++
			}
			continue // a chain that makes room would count as revised
		}
		if !c.Over(t.Time) && (old == nil || c.To.After(old.To) || e.sees(&old.Chain)) {
			e.kept[c.ID] = &kept{*c, x.took, x.instead, x.parts, "", old == nil || c.From.After(old.To)}
		}
	}
	e.leftOut = leftOut
	for id, c := range e.kept {
		if c.Over(t.Time) || !again[id] && e.sees(&c.Chain) {
			delete(e.kept, id)
			if !c.Over(t.Time) {
				e.restore(id)
			}
		}
	}
	e.replace(found, again)
	chains := make([]tick.Chain, 0, len(e.kept))
	for _, c := range e.kept {
		c.begin()
		chains = append(chains, c.Chain)
	}
	tick.SortChains(chains)
	return chains
}

// LeftOut returns how many chains were not reported since the engine began, because there were too many.
func (e *Engine) LeftOut() uint64 { return e.left }

// sees reports whether all steps of a chain are still in the window. If they are and the chain is
// not found again, it was judged on too little data.
func (e *Engine) sees(c *tick.Chain) bool {
	s := e.series[c.TID]
	return s != nil && s.pid == c.PID && c.From.Unix() > s.newest-windowSeconds
}

// restore gives the loss back to the chains that a chain had replaced before it was revised away.
func (e *Engine) restore(id string) {
	for _, c := range e.kept {
		if c.by == id {
			c.Replaced, c.by = time.Time{}, ""
		}
	}
}

// replace ends each kept chain that is not found where a found one begins that has its loss.
func (e *Engine) replace(found []*Finding, again map[string]bool) {
	for id, c := range e.kept {
		if again[id] {
			c.Replaced, c.by = time.Time{}, ""
		}
	}
	for id, c := range e.kept {
		for _, x := range found {
			if by := e.kept[x.id]; by != nil && !again[id] && by.hasLossOf(c) {
				c.replacedBy(by)
			}
		}
	}
}

// hasLossOf reports whether the chain has the whole loss of an earlier one.
func (c *kept) hasLossOf(old *kept) bool {
	has := func(id string) bool {
		return id == c.ID || slices.Contains(c.instead, id) || slices.Contains(c.parts, id)
	}
	return c.PID == old.PID && (has(old.ID) || has(old.took) || slices.Contains(old.instead, c.ID))
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

// replacedBy ends the chain's loss where another one's begins, the first of several.
func (c *kept) replacedBy(by *kept) {
	first := stats.Floor(by.From.UnixNano(), int64(tick.SpreadStep))
	start := wall(first)
	if len(by.Spread) > 0 {
		start = wall(by.Spread[0].Start)
	}
	if c.Replaced.IsZero() || start.Before(c.Replaced) {
		c.Replaced, c.by = start, by.ID
	}
	if !c.To.Before(wall(first)) {
		by.begins = false
	}
}
