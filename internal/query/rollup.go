package query

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A window is answered from the coarsest rollups that fit into it, its edges from finer ones, and
// remainders below a second from the calls. Calls since the last rollups are read, too.

// rollTier is a session's rollups of one length, which begin in [kept, closed).
type rollTier struct {
	length, kept, closed int64 // nanoseconds
}

// stretch is a part of a window that one tier's rollups answer, or the calls if length is 0.
type stretch struct {
	length, from, to int64
}

// cover cuts [from, to) into stretches. tiers are ordered from coarse to fine.
func cover(tiers []rollTier, from, to int64) []stretch {
	if from >= to {
		return nil
	}
	if len(tiers) == 0 {
		return []stretch{{0, from, to}}
	}
	t := tiers[0]
	a, b := ceil(max(from, t.kept), t.length), stats.Floor(min(to, t.closed), t.length)
	if a >= b {
		return cover(tiers[1:], from, to)
	}
	out := append(cover(tiers[1:], from, a), stretch{t.length, a, b})
	return append(out, cover(tiers[1:], b, to)...)
}

// ceil returns the smallest multiple of step that is at least v.
func ceil(v, step int64) int64 {
	f := stats.Floor(v, step)
	if f < v {
		f += step
	}
	return f
}

// sumCounted adds a session's calls: durations from records, counts from the kernel.
func (r *Reader) sumCounted(ctx context.Context, s *Session, f Filter, sums *opStats, answer *Coverage) error {
	own := &opStats{Group: sums.Group, found: map[statKey]*store.Sum{}}
	if own.Label != "" {
		var err error
		if own.labels, err = r.labelValues(ctx, s, f, own.Label); err != nil {
			return err
		}
	}
	counts := &Counts{}
	if !own.calls(&f) && (own.Every == 0 || own.Every >= time.Second) {
		var err error
		if counts, err = r.counts(ctx, s, f, own.Every); err != nil {
			return err
		}
	}
	if err := r.sumSession(ctx, s, counts.window(f), own, answer); err != nil {
		return err
	}
	if counts.known {
		own.count(s, counts)
		answer.Add(Coverage{From: counts.From, To: counts.To})
		if counts.deleted {
			answer.Missing = append(answer.Missing, s.ID)
		}
	}
	if err := r.least(ctx, s, own, answer); err != nil {
		return err
	}
	for k, sum := range own.found {
		exact := counts.known && (own.Every == 0 || k.time >= counts.exactFrom(own.Every))
		answer.Estimate, answer.Records = answer.Estimate || sum.Thinned && !exact, answer.Records || !exact
		if to := sums.found[k]; to != nil {
			to.Merge(sum)
		} else {
			sums.found[k] = sum
		}
	}
	return nil
}

// least adds the answer's operations with calls that were temporarily not counted.
func (r *Reader) least(ctx context.Context, s *Session, sums *opStats, answer *Coverage) error {
	names := map[string]bool{}
	for k := range sums.found {
		names[k.op.String()] = true
	}
	return r.rows(ctx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		if names[name] {
			answer.Add(Coverage{Least: []string{name}})
		}
		return err
	}, "SELECT DISTINCT object FROM reports WHERE session = ? AND kind = ? ORDER BY object", s.id, tick.LowerBound)
}

// count replaces the records' counts by the kernel's.
func (g *opStats) count(s *Session, c *Counts) {
	first := int64(math.MinInt64)
	if g.Every > 0 { // earlier rows are longer than a tick
		first = c.exactFrom(g.Every)
	}
	for k, sum := range g.found {
		if k.time >= first {
			sum.Counts = tick.Counts{}
		}
	}
	if g.Every == 0 {
		for k, n := range c.ByKey {
			g.sum(s, 0, k.PID, k.Op, 0, "").Counts.Add(&n)
		}
		return
	}
	for i := range c.rows {
		if x := &c.rows[i]; stats.Floor(x.middle(), int64(g.Every)) >= first {
			g.sum(s, x.middle(), x.PID, x.Op, 0, "").Counts.Add(&x.Counts)
		}
	}
}

// sumSession adds a session's calls.
func (r *Reader) sumSession(ctx context.Context, s *Session, f Filter, sums *opStats, answer *Coverage) error {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // a consistent state of rollups and their mark
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var rolled uint64
	if err := tx.QueryRowContext(ctx, "SELECT rolled FROM sessions WHERE id = ?", s.id).Scan(&rolled); err != nil {
		return err
	}
	from, to := bounds(f)
	// No call precedes the session or lies in the future: this bounds the tiers.
	from = max(from, stats.Floor(s.Started.UnixNano(), int64(time.Hour))-int64(time.Hour))
	to = min(to, stats.Floor(math.MaxInt64, int64(time.Hour)))
	var tiers []rollTier
	if !sums.calls(&f) {
		if tiers, err = r.tiers(ctx, tx, s, sums.Every); err != nil {
			return err
		}
	}
	var raw []stretch
	for _, x := range cover(tiers, from, to) {
		if x.length == 0 {
			raw = append(raw, x)
			continue
		}
		if err := r.sumRollups(ctx, tx, s, f, x, sums); err != nil {
			return err
		}
	}
	if err := tx.Rollback(); err != nil {
		return err
	}
	for _, x := range raw {
		if err := r.sumCalls(ctx, s, f, x, 0, rolled, sums, answer); err != nil {
			return err
		}
	}
	return r.sumCalls(ctx, s, f, stretch{0, from, to}, rolled, math.MaxUint64, sums, answer)
}

// tiers returns a session's tiers whose windows divide the period, coarsest first.
func (r *Reader) tiers(ctx context.Context, tx *sql.Tx, s *Session, every time.Duration) (out []rollTier, err error) {
	err = eachRow(ctx, tx, func(rows *sql.Rows) error {
		var t rollTier
		if err := rows.Scan(&t.length, &t.kept, &t.closed); err != nil {
			return err
		}
		if t.length == 1 { // open windows are written too
			t.closed = math.MaxInt64
		}
		if t.length *= int64(time.Second); every == 0 || int64(every)%t.length == 0 {
			out = append(out, t)
		}
		return nil
	}, "SELECT seconds, kept_ns, closed_ns FROM tiers WHERE session = ? ORDER BY seconds DESC", s.id)
	return out, err
}

// sumRollups adds the rollups of a stretch.
func (r *Reader) sumRollups(ctx context.Context, tx *sql.Tx, s *Session, f Filter, x stretch, sums *opStats) error {
	return eachRow(ctx, tx, func(rows *sql.Rows) error {
		var start int64
		var pid uint32
		var op events.Op
		var sum store.Sum
		if err := store.ScanSum(rows.Scan, &sum, &start, &pid, &op); err != nil {
			return err
		}
		if f.matches(pid, op) {
			sums.sum(s, start, pid, op, 0, "").Merge(&sum)
		}
		return nil
	}, "SELECT start_ns, pid, op, "+store.RollupColumns+" FROM rollups WHERE session = ? AND seconds = ? AND start_ns >= ? AND start_ns < ?",
		s.id, x.length/int64(time.Second), x.from, x.to)
}

// sumCalls adds the calls of a stretch with numbers in [after, before).
func (r *Reader) sumCalls(ctx context.Context, s *Session, f Filter, x stretch, after, before uint64, sums *opStats, answer *Coverage) error {
	if after >= before {
		return nil
	}
	f.From, f.To = unixTime(x.from), unixTime(x.to)
	c, err := r.scan(ctx, s, f, after, func(c *events.Call, number uint64) bool {
		if number < before {
			sums.sum(s, c.Start, c.PID, c.Op, c.Stack, sums.labels.value(c.PID, c.TID, c.Start)).Add(c)
		}
		return true
	})
	if errors.Is(err, ErrNoCalls) {
		if after == 0 {
			answer.Missing = append(answer.Missing, s.ID)
		}
		return nil
	}
	if after > 0 { // the oldest are not needed
		c.Missing = nil
	}
	answer.Add(c)
	return err
}
