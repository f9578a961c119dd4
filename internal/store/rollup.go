package store

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Sum is what calls sum to: counts by weight, and the distribution of their
// durations. The zero value is of no calls.
type Sum struct {
	tick.Counts // Inner and Abandoned are 0
	Dur         stats.Sketch
	Thinned     bool // some records stood for more than one call
}

// Add counts a call.
func (s *Sum) Add(c *events.Call) {
	w := uint64(c.Weight)
	s.Thinned = s.Thinned || c.Weight > 1
	s.Calls += w
	if c.Flags&events.CallNested != 0 {
		s.Nested += w
	}
	if c.Flags&events.CallUnmeasured != 0 {
		s.Unmeasured += w
		return
	}
	s.Done += w
	if c.Flags&events.CallFailed != 0 {
		s.Errors += w
	}
	s.Total += uint64(max(c.Duration, 0)) * w
	s.Runnable += uint64(max(c.Runnable, 0)) * w
	s.Throttled += uint64(max(c.Throttled, 0)) * w
	if c.Flags&events.CallLedgerPartial != 0 {
		s.Partial += w
		s.PartialNS += uint64(max(c.OnCPU+c.Blocked, 0)) * w
	} else {
		s.OnCPU += uint64(max(c.OnCPU, 0)) * w
	}
	s.Dur.Add(c.Duration, c.Weight)
}

// Merge adds all that o counted.
func (s *Sum) Merge(o *Sum) {
	for i, v := range o.columns() {
		*s.columns()[i] += *v
	}
	s.Thinned = s.Thinned || o.Thinned
	s.Dur.Merge(&o.Dur)
}

// columns are the counts in the order of the table of rollups.
func (s *Sum) columns() [11]*uint64 {
	return [...]*uint64{&s.Calls, &s.Done, &s.Errors, &s.Nested, &s.Unmeasured, &s.Total, &s.OnCPU, &s.Runnable, &s.Throttled, &s.Partial, &s.PartialNS}
}

// tier is rollups of one length.
type tier struct {
	length time.Duration
	keep   time.Duration // 0: as long as there is room
}

func (t tier) seconds() int64 { return int64(t.length / time.Second) }

// tiers go from fine to coarse, each a multiple of the one before.
var tiers = [...]tier{
	{time.Second, 6 * time.Hour},
	{10 * time.Second, 48 * time.Hour},
	{time.Minute, 30 * 24 * time.Hour},
	{10 * time.Minute, 365 * 24 * time.Hour},
	{time.Hour, 0},
}

// rollLate is how long after its end a window waits for calls that began in it.
// What comes later is added to what was written.
const rollLate = 2 * time.Second

// rollKey is a window, process and operation.
type rollKey struct {
	tier  int
	start int64 // Unix nanoseconds
	pid   uint32
	op    events.Op
}

// rolling is a sum that is not written, or not for good.
type rolling struct {
	Sum
	dirty bool // the file has less
	late  bool // the file may have a part of it already
}

// rollup sums calls up by time. A window that is open is here, and in the finest
// tier written at each tick; one that is closed goes into the next tier's. So at
// any time the rows of the finest tier have all calls, and those of each tier all
// that began before it was closed.
type rollup struct {
	open    map[rollKey]*rolling
	pending map[rollKey]*rolling // closed, not written
	closed  [len(tiers)]int64
	kept    [len(tiers)]int64
	recent  [64]struct {
		key rollKey
		sum *rolling
	}
	rolled uint64 // calls taken in
}

func newRollup() *rollup {
	r := &rollup{open: map[rollKey]*rolling{}, pending: map[rollKey]*rolling{}}
	for i := range tiers {
		r.closed[i] = math.MinInt64
		r.kept[i] = math.MinInt64
	}
	return r
}

// add takes calls in.
func (r *rollup) add(calls []events.Call) {
	second := int64(tiers[0].length)
	for i := range calls {
		c := &calls[i]
		k := rollKey{0, floor(c.Start, second), c.PID, c.Op}
		slot := &r.recent[(uint32(c.Op)^uint32(c.PID)*31)%uint32(len(r.recent))]
		if slot.sum == nil || slot.key != k {
			slot.key, slot.sum = k, r.at(k)
		}
		slot.sum.dirty = true
		slot.sum.Add(c)
	}
	r.rolled += uint64(len(calls))
}

// at returns the open sum of a window.
func (r *rollup) at(k rollKey) *rolling {
	s := r.open[k]
	if s == nil {
		s = &rolling{late: k.start < r.closed[k.tier]}
		r.open[k] = s
	}
	return s
}

// floor is the largest multiple of step that is not above v.
func floor(v, step int64) int64 {
	m := v % step
	if m < 0 {
		m += step
	}
	return v - m
}

// close closes the windows that ended rollLate before now; all if final.
func (r *rollup) close(now time.Time, final bool) {
	clear(r.recent[:])
	for t := range tiers {
		length := int64(tiers[t].length)
		edge := floor(now.Add(-rollLate).UnixNano(), length)
		if t > 0 {
			edge = min(edge, floor(r.closed[t-1], length))
		}
		edge = max(edge, r.closed[t]) // also for a clock that went back: what is late is added once, now
		if final {
			edge = math.MaxInt64
		}
		if edge <= r.closed[t] && !r.has(t) {
			continue
		}
		for k, s := range r.open {
			if k.tier != t || k.start >= edge {
				continue
			}
			delete(r.open, k)
			if t+1 < len(tiers) {
				up := r.at(rollKey{t + 1, floor(k.start, int64(tiers[t+1].length)), k.pid, k.op})
				up.Merge(&s.Sum)
				up.dirty = true
			}
			if p := r.pending[k]; p != nil {
				p.Merge(&s.Sum)
			} else if s.dirty || t > 0 {
				r.pending[k] = s
			}
		}
		r.closed[t] = max(r.closed[t], edge)
	}
}

// has says whether a tier has late sums.
func (r *rollup) has(t int) bool {
	for k, s := range r.open {
		if k.tier == t && s.late {
			return true
		}
	}
	return false
}

var (
	sqlRoll = `REPLACE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlGet  = `SELECT ` + RollupColumns + ` FROM rollups WHERE session = ? AND seconds = ? AND start_ns = ? AND pid = ? AND op = ?`
	sqlTier = `REPLACE INTO tiers VALUES (?, ?, ?, ?)`
)

// RollupColumns are the columns of a rollup that [ScanSum] reads.
const RollupColumns = `calls, done, errors, nested, unmeasured, total_ns, oncpu_ns, runnable_ns, throttled_ns, partial, partial_ns, thinned, sketch`

// ScanSum reads [RollupColumns] of a row, behind what more it has.
func ScanSum(scan func(...any) error, s *Sum, more ...any) error {
	var sketch []byte
	for _, v := range s.columns() {
		more = append(more, v)
	}
	if err := scan(append(more, &s.Thinned, &sketch)...); err != nil {
		return err
	}
	return s.Dur.UnmarshalBinary(sketch)
}

// roll writes what was summed up.
func (v *saving) roll(now time.Time, final bool) error {
	r := v.rollup
	r.close(now, final)
	for k, s := range r.pending {
		if err := v.rollRow(k, s); err != nil {
			return err
		}
	}
	for k, s := range r.open {
		if k.tier > 0 || !s.dirty {
			continue
		}
		if err := v.rollRow(k, s); err != nil {
			return err
		}
		v.done = append(v.done, func() { s.dirty, s.late = false, false })
	}
	v.done = append(v.done, func() { clear(r.pending) })
	for t := range tiers {
		if err := v.exec(&sqlTier, v.id, int64(tiers[t].length/time.Second), r.kept[t], r.closed[t]); err != nil {
			return err
		}
	}
	return nil
}

// rollRow writes one sum. What came late is added to what the file has; the sum
// then has it all, as one that is still open may be written again.
func (v *saving) rollRow(k rollKey, s *rolling) error {
	seconds := int64(tiers[k.tier].length / time.Second)
	if s.late {
		var had Sum
		row := v.tx.Stmt(v.stmts[&sqlGet]).QueryRow(v.id, seconds, k.start, k.pid, uint16(k.op))
		err := ScanSum(row.Scan, &had)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return fmt.Errorf("a rollup: %w", err)
		default:
			had.Merge(&s.Sum)
			return v.putRoll(k, seconds, &had)
		}
	}
	return v.putRoll(k, seconds, &s.Sum)
}

func (v *saving) putRoll(k rollKey, seconds int64, s *Sum) (err error) {
	if v.blob, err = s.Dur.AppendBinary(v.blob[:0]); err != nil {
		return err
	}
	args := []any{v.id, seconds, k.start, k.pid, uint16(k.op)}
	for _, n := range s.columns() {
		args = append(args, int64(*n))
	}
	return v.exec(&sqlRoll, append(args, s.Thinned, v.blob)...)
}
