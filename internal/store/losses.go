package store

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

var (
	sqlLossGone = `DELETE FROM losses WHERE session = ? AND seconds = 60 AND start_ns = ? AND chain = ?`
	sqlLoss     = `REPLACE INTO losses VALUES (?, 60, ?, ?, ?, ?, ?, ?)`
)

const (
	lossWindow = time.Minute         // length of a row
	lossKept   = 2 * tick.ChainStays // how long a minute may still change
	lossHeld   = 24 * time.Hour      // how long an unwritten minute is kept
	lossNames  = 3                   // culprits of a chain with their own rows
)

// loss is what a chain cost, by time. A chain covers its window only, and each tick replaces it, so
// the last value of each interval is kept.
type loss struct {
	rule     string
	pid      uint32
	since    int64           // start of the chain's episode, Unix ns
	from, to int64           // of its last state
	spread   map[int64]int64 // ns by start of an interval
	names    []lossShare
	dirty    map[int64]bool // minutes that differ from the file
	gone     bool           // the chain was revised away
}

type lossShare struct {
	culprit string
	share   float64
}

// losses are the losses of current and recent chains, by ID.
type losses map[string]*loss

// note records a tick's chains. A chain that disappears before it is over is revoked, back to the
// start of its last state. A replaced chain is recorded up to Replaced.
func (l losses) note(chains []tick.Chain, now time.Time) {
	for id, x := range l {
		listed := slices.ContainsFunc(chains, func(c tick.Chain) bool { return c.ID == id })
		state := tick.Chain{To: segment.FromUnixNano(x.to)}
		if !listed && !x.gone && !state.Over(now) {
			x.gone = true
			x.replace(nil, stats.Floor(x.from, int64(tick.SpreadStep)))
		}
		x.forget(now)
		if !listed && len(x.spread) == 0 && len(x.dirty) == 0 {
			delete(l, id)
		}
	}
	for i := range chains {
		c := &chains[i]
		if c.From.IsZero() || c.To.Before(c.From) || now.Sub(c.To) > lossKept {
			continue // the time is unknown, or already recorded
		}
		x := l[c.ID]
		if x == nil {
			x = &loss{spread: map[int64]int64{}, dirty: map[int64]bool{}}
			l[c.ID] = x
		}
		edge := stats.Floor(now.Add(-lossKept).UnixNano(), int64(lossWindow))
		recorded := min(edge, stats.Floor(x.to, int64(lossWindow))) // 0: nothing is
		from := c.From.UnixNano()
		if x.since = min(x.since, from); x.gone || from > x.to {
			x.since = from
		}
		x.rule, x.pid, x.gone = c.Rule, c.PID, false
		x.from, x.to, x.names = from, c.To.UnixNano(), lossShares(c.Culprits)
		spread := c.Spread
		if len(spread) == 0 {
			spread = evenly(c, recorded)
			if first := &spread[0]; x.from > x.since { // a part may have left the window
				first.Lost = max(first.Lost, time.Duration(x.spread[first.Start]))
			}
		}
		x.replace(current(c, spread, recorded))
	}
}

// current returns the losses of a chain that may have changed, and since when: not those that are
// recorded, and none from Replaced on.
func current(c *tick.Chain, spread []tick.Loss, recorded int64) (out []tick.Loss, from int64) {
	from = max(spread[0].Start, recorded)
	to := int64(math.MaxInt64)
	if !c.Replaced.IsZero() {
		to = c.Replaced.UnixNano()
		from = min(from, to)
	}
	for _, l := range spread {
		if l.Start >= from && l.Start < to {
			out = append(out, l)
		}
	}
	return out, from
}

// replace replaces all losses from a time on.
func (x *loss) replace(spread []tick.Loss, from int64) {
	now := make(map[int64]int64, len(spread))
	for _, s := range spread {
		now[s.Start] += int64(s.Lost)
	}
	for start, ns := range x.spread {
		if start >= from && now[start] != ns {
			delete(x.spread, start)
			x.dirty[stats.Floor(start, int64(lossWindow))] = true
		}
	}
	for start, ns := range now {
		if ns > 0 && x.spread[start] != ns {
			x.spread[start] = ns
			x.dirty[stats.Floor(start, int64(lossWindow))] = true
		}
	}
}

// forget drops written minutes that can no longer change, and old ones that could not be written.
func (x *loss) forget(now time.Time) {
	held := now.Add(-lossHeld).UnixNano()
	maps.DeleteFunc(x.dirty, func(minute int64, _ bool) bool { return minute < held })
	edge := stats.Floor(now.Add(-lossKept).UnixNano(), int64(lossWindow))
	maps.DeleteFunc(x.spread, func(start, _ int64) bool {
		return start < edge && !x.dirty[stats.Floor(start, int64(lossWindow))]
	})
}

// evenly spreads a chain's loss evenly over its time, if nothing more is known. Losses before a time
// (Unix ns) are recorded.
func evenly(c *tick.Chain, recorded int64) (out []tick.Loss) {
	step := int64(tick.SpreadStep)
	from, to := c.From.UnixNano(), max(c.To.UnixNano(), c.From.UnixNano()+1)
	for start := stats.Floor(max(from, min(recorded, to-1)), step); start < to; start += step {
		part := float64(min(start+step, to)-max(start, from)) / float64(to-from)
		out = append(out, tick.Loss{Start: start, Lost: time.Duration(part * float64(c.Lost))})
	}
	return out
}

// lossShares returns the culprits by name with their shares of the loss: the largest, and all
// others as one without a name.
func lossShares(culprits []tick.Culprit) (out []lossShare) {
	total := 0.0
	for i := range culprits {
		c := &culprits[i]
		name, ns := culpritName(c), float64(max(c.Lost, 0))
		total += ns
		at := slices.IndexFunc(out, func(s lossShare) bool { return s.culprit == name })
		if at < 0 {
			at = len(out)
			out = append(out, lossShare{culprit: name})
		}
		out[at].share += ns
	}
	if total == 0 {
		name := ""
		if len(out) > 0 {
			name = out[0].culprit
		}
		return []lossShare{{name, 1}}
	}
	slices.SortStableFunc(out, func(a, b lossShare) int { return cmp.Compare(b.share, a.share) })
	for i := range out {
		out[i].share /= total
		if i >= lossNames {
			out[lossNames-1].culprit = ""
			out[lossNames-1].share += out[i].share
		}
	}
	return out[:min(len(out), lossNames)]
}

// culpritName returns a culprit's name, the same wherever it did the same.
func culpritName(c *tick.Culprit) string {
	what, _, _ := strings.Cut(c.What, ",")
	switch {
	case c.Agent:
		return "ingero"
	case c.Thread.TID == 0:
		return what
	case c.Own:
		return "own thread " + c.Thread.Name.String()
	}
	return c.Thread.Name.String()
}

// losses writes the changed minutes.
func (v *saving) losses() error {
	for id, x := range v.lost {
		for minute := range x.dirty {
			if err := v.lossRows(id, x, minute); err != nil {
				return err
			}
			v.done = append(v.done, func() { delete(x.dirty, minute) })
		}
	}
	return nil
}

func (v *saving) lossRows(id string, x *loss, minute int64) error {
	if err := v.exec(&sqlLossGone, v.id, minute, id); err != nil {
		return err
	}
	sum := int64(0)
	for at := minute; at < minute+int64(lossWindow); at += int64(tick.SpreadStep) {
		sum += x.spread[at]
	}
	rest := sum
	for i, s := range x.names {
		part := min(int64(s.share*float64(sum)+0.5), rest)
		if i == len(x.names)-1 {
			part = rest
		}
		rest -= part
		if part == 0 {
			continue
		}
		if err := v.exec(&sqlLoss, v.id, minute, id, s.culprit, x.rule, x.pid, part); err != nil {
			return err
		}
	}
	return nil
}
