package store

import (
	"fmt"
	"math"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/retention"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Sum is a sum over calls: counts by weight, and the distribution of durations. The zero value is
// an empty sum.
type Sum struct {
	tick.Counts // of records, by weight: Inner and Abandoned are 0
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

// Merge adds o.
func (s *Sum) Merge(o *Sum) {
	s.Counts.Add(&o.Counts)
	s.Thinned = s.Thinned || o.Thinned
	s.Dur.Merge(&o.Dur)
}

// columns returns pointers to the counts in the order of the table rollups.
func (s *Sum) columns() [11]*uint64 {
	return [...]*uint64{&s.Calls, &s.Done, &s.Errors, &s.Nested, &s.Unmeasured, &s.Total, &s.OnCPU, &s.Runnable, &s.Throttled, &s.Partial, &s.PartialNS}
}

// rollLate is how long after its end a window waits for late calls. Later calls are added to the
// written row.
const rollLate = 2 * time.Second

// rollKey is a window, process and operation.
type rollKey struct {
	tier  int
	start int64 // Unix nanoseconds
	pid   uint32
	op    events.Op
}

// A window of restTier or coarser without calls for restAfter is written before it ends, and later
// calls are added to the row. Otherwise each process would use memory for an hour.
const (
	restTier  = 2
	restAfter = 20 * time.Second
)

// rolling is a sum that is not written, or not finally.
type rolling struct {
	Sum
	dirty bool  // the file has less
	late  bool  // the window is closed, and the file may have a part of it
	last  int64 // start of the latest window of the finest tier in the sum
}

// rollup sums calls by time. Open windows are in memory, and each tick writes those of the finest
// tier. Closed windows are added to the next tier's. So the rows of the finest tier always have all
// calls, and those of each other tier have all calls up to its last closed window.
type rollup struct {
	open    map[rollKey]*rolling
	pending map[rollKey]*rolling // closed, not written
	closed  [len(retention.Rollups)]int64
	recent  [64]struct {
		key rollKey
		sum *rolling
	}
	rolled uint64 // number of calls added
}

func newRollup() *rollup {
	r := &rollup{open: map[rollKey]*rolling{}, pending: map[rollKey]*rolling{}}
	for i := range retention.Rollups {
		r.closed[i] = math.MinInt64
	}
	return r
}

// add adds calls.
func (r *rollup) add(calls []events.Call) {
	second := int64(retention.Rollups[0].Length)
	for i := range calls {
		c := &calls[i]
		k := rollKey{0, stats.Floor(c.Start, second), c.PID, c.Op}
		slot := &r.recent[(uint32(c.Op)^uint32(c.PID)*31)%uint32(len(r.recent))]
		if slot.sum == nil || slot.key != k {
			slot.key, slot.sum = k, r.window(k)
		}
		slot.sum.dirty = true
		slot.sum.Add(c)
	}
	r.rolled += uint64(len(calls))
}

// window returns a window's open sum.
func (r *rollup) window(k rollKey) *rolling {
	s := r.open[k]
	if s == nil {
		s = &rolling{late: k.start < r.closed[k.tier]}
		r.open[k] = s
	}
	return s
}

// close closes the windows that ended rollLate before now, or all if final.
func (r *rollup) close(now time.Time, final bool) {
	clear(r.recent[:])
	finer := false // windows of the tier before restTier were closed
	for t := range retention.Rollups {
		length := int64(retention.Rollups[t].Length)
		edge := stats.Floor(now.Add(-rollLate).UnixNano(), length)
		if t > 0 {
			edge = min(edge, stats.Floor(r.closed[t-1], length))
		}
		edge = max(edge, r.closed[t]) // late calls are added once, now, even after the clock was set back
		if final {
			edge = math.MaxInt64
		}
		rest := t >= restTier && finer
		if edge <= r.closed[t] && !rest && !r.hasLate(t) {
			continue
		}
		finer = finer || t == restTier-1
		for k, s := range r.open {
			if k.tier != t || k.start >= edge && !(rest && s.last < r.closed[restTier-1]-int64(restAfter)) {
				continue
			}
			delete(r.open, k)
			if t+1 < len(retention.Rollups) {
				up := r.window(rollKey{t + 1, stats.Floor(k.start, int64(retention.Rollups[t+1].Length)), k.pid, k.op})
				up.Merge(&s.Sum)
				up.dirty = true
				up.last = max(up.last, s.last, k.start)
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

// hasLate reports whether a tier has late sums.
func (r *rollup) hasLate(t int) bool {
	for k, s := range r.open {
		if k.tier == t && s.late {
			return true
		}
	}
	return false
}

var (
	sqlRoll      = `REPLACE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlFirstRoll = `INSERT OR IGNORE INTO rollups VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlGet       = `SELECT ` + RollupColumns + ` FROM rollups WHERE session = ? AND seconds = ? AND start_ns = ? AND pid = ? AND op = ?`
	sqlTier      = `REPLACE INTO tiers VALUES (?, ?, ?, ?)`
)

// RollupColumns are the columns that [ScanSum] reads.
const RollupColumns = `calls, done, errors, nested, unmeasured, total_ns, oncpu_ns, runnable_ns, throttled_ns, partial, partial_ns, thinned, sketch`

// ScanSum reads a row that ends with [RollupColumns]; more receives the columns before.
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

// roll writes the sums.
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
	for t := range retention.Rollups {
		if err := v.exec(&sqlTier, v.id, retention.Rollups[t].Seconds(), v.rows.Kept[t], r.closed[t]); err != nil {
			return err
		}
	}
	return nil
}

// rollRow writes one sum. A late or resting sum is added to the file's row; the sum then includes
// that row, since an open sum may be written again.
func (v *saving) rollRow(k rollKey, s *rolling) error {
	if k.tier < restTier && !s.late {
		_, err := v.putRoll(&sqlRoll, k, &s.Sum)
		return err
	}
	if added, err := v.putRoll(&sqlFirstRoll, k, &s.Sum); err != nil || added {
		return err
	}
	var had Sum
	row := v.stmt(&sqlGet).QueryRow(v.id, retention.Rollups[k.tier].Seconds(), k.start, k.pid, uint16(k.op))
	if err := ScanSum(row.Scan, &had); err != nil {
		return fmt.Errorf("rollup: %w", err)
	}
	had.Merge(&s.Sum)
	_, err := v.putRoll(&sqlRoll, k, &had)
	return err
}

// putRoll writes a row by one of two statements, and reports whether it did.
func (v *saving) putRoll(q *string, k rollKey, s *Sum) (done bool, err error) {
	if v.blob, err = s.Dur.AppendBinary(v.blob[:0]); err != nil {
		return false, err
	}
	args := []any{v.id, retention.Rollups[k.tier].Seconds(), k.start, k.pid, uint16(k.op)}
	for _, n := range s.columns() {
		args = append(args, int64(*n))
	}
	r, err := v.stmt(q).Exec(append(args, s.Thinned, v.blob)...)
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}
