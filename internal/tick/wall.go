package tick

import (
	"slices"
	"time"
)

// Wall returns the tick with its time, and those of Episodes and Xids, by the wall clock, for outputs
// that other programs compare with their own time. It does not change t, and returns t itself unless
// the wall clock is ahead or behind.
func (t *Tick) Wall() *Tick {
	if t.Ahead == 0 {
		return t
	}
	w := *t
	w.Time, w.Ahead = t.Time.Add(t.Ahead), 0
	w.Episodes, w.Xids = slices.Clone(t.Episodes), slices.Clone(t.Xids)
	for i := range w.Episodes {
		e := &w.Episodes[i]
		for _, at := range []*time.Time{&e.From, &e.To, &e.Chain.From, &e.Chain.To} {
			*at = at.Add(t.Ahead)
		}
		e.Chain.Timeline = slices.Clone(e.Chain.Timeline)
		for j := range e.Chain.Timeline {
			m := &e.Chain.Timeline[j]
			m.Time = m.Time.Add(t.Ahead)
		}
		e.Chain.Spread = slices.Clone(e.Chain.Spread)
		for j := range e.Chain.Spread {
			e.Chain.Spread[j].Start += int64(t.Ahead)
		}
		e.Chain.Culprits = slices.Clone(e.Chain.Culprits)
		for j := range e.Chain.Culprits {
			list := slices.Clone(e.Chain.Culprits[j].Sharers)
			for k := range list {
				if x := &list[k]; !x.Started.IsZero() {
					x.Started = x.Started.Add(t.Ahead)
				}
			}
			e.Chain.Culprits[j].Sharers = list
		}
		if !e.Chain.Replaced.IsZero() {
			e.Chain.Replaced = e.Chain.Replaced.Add(t.Ahead)
		}
	}
	for i := range w.Xids {
		w.Xids[i].Time += int64(t.Ahead)
	}
	return &w
}
