package store

import (
	"cmp"
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of the calls per tick that are kept as rows.
const (
	notableFailed = 32
	notableSlow   = 16
	slowFrom      = 100_000 // ns
)

// notable selects a tick's notable calls.
type notable struct {
	failed []numbered
	slow   []numbered // the slowest so far, unordered
	least  int        // index in slow of the fastest
}

type numbered struct {
	events.Call
	number uint64
}

// add considers calls; number is the first one's.
func (n *notable) add(calls []events.Call, number uint64) {
	for i := range calls {
		c := &calls[i]
		switch {
		case c.Flags&events.CallFailed != 0:
			if len(n.failed) < notableFailed {
				n.failed = append(n.failed, numbered{*c, number + uint64(i)})
			}
		case c.Duration < slowFrom:
		case len(n.slow) < notableSlow:
			n.slow = append(n.slow, numbered{*c, number + uint64(i)})
			n.find()
		case c.Duration > n.slow[n.least].Duration:
			n.slow[n.least] = numbered{*c, number + uint64(i)}
			n.find()
		}
	}
}

func (n *notable) find() {
	for i := range n.slow {
		if i == 0 || n.slow[i].Duration < n.slow[n.least].Duration {
			n.least = i
		}
	}
}

func (n *notable) reset() { n.failed, n.slow, n.least = n.failed[:0], n.slow[:0], 0 }

var sqlNotable = `INSERT OR IGNORE INTO notable VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// notables writes a tick's notable calls. A call is slow if it took at least twice its operation's
// median in that process.
func (v *saving) notables(t *tick.Tick) error {
	for i := range v.notable.failed {
		if err := v.note(&v.notable.failed[i], "failed"); err != nil {
			return err
		}
	}
	medians := map[opID]int64{}
	slices.SortFunc(v.notable.slow, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	v.notable.find()
	for i := range v.notable.slow {
		c := &v.notable.slow[i]
		k := opID{c.PID, c.Op}
		if _, ok := medians[k]; !ok {
			medians[k] = 0
			for j := range t.Ops {
				if o := &t.Ops[j]; o.PID == k.pid && o.Op == k.op && o.Dur != nil {
					medians[k] = o.Dur.Quantile(0.5)
				}
			}
		}
		if c.Duration < 2*medians[k] {
			continue
		}
		if err := v.note(c, "slow"); err != nil {
			return err
		}
	}
	v.done = append(v.done, v.notable.reset)
	return nil
}

func (v *saving) note(c *numbered, why string) error {
	var on, blocked any
	if c.Flags&events.CallLedgerPartial == 0 {
		on, blocked = c.OnCPU, c.Blocked
	}
	return v.exec(&sqlNotable, v.id, int64(c.number), why, c.Start, c.PID, c.TID, uint16(c.Op), c.Op.String(), c.Result,
		c.Duration, on, c.Runnable, c.Throttled, blocked, int64(c.Args[0]), int64(c.Args[1]), int64(c.Args[2]), int64(c.Args[3]))
}

var sqlSnapshot = `INSERT OR IGNORE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

func (v *saving) snapshot(t *tick.Tick) error {
	if t.Idle {
		return nil
	}
	h := &t.Host
	return v.exec(&sqlSnapshot, v.id, t.Time.UnixNano(), h.CPU, h.Load[0], h.Load[1], h.Load[2], h.CPUs,
		h.MemTotal, h.MemAvail, h.SwapTotal, h.SwapUsed, int64(t.Records), int64(t.Self.CPU), t.Self.RSS)
}
