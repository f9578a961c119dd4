package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"ingero/internal/tick"
)

// Called returns the number of calls in the filter's window from [Reader.Counts]. Without the
// kernel's counts, it estimates it from rollups. ok is false without either.
func (r *Reader) Called(ctx context.Context, f Filter) (n uint64, ok bool, err error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return 0, false, err
	}
	counts, err := r.Counts(ctx, &s, f)
	if err != nil {
		return 0, false, fmt.Errorf("count the calls of session %s: %w", s.ID, r.read(err))
	}
	if counts.known {
		for _, c := range counts.ByKey {
			n += c.Calls
		}
		return n, true, nil
	}
	from, to := bounds(f)
	var sum sql.NullInt64
	// Use the coarsest length of at most a sixtieth of the window: few rows, small error.
	err = r.db.QueryRowContext(ctx, `SELECT sum(calls) FROM rollups WHERE session = ?1 AND start_ns >= ?2 - seconds * 500000000 AND start_ns < ?3 - seconds * 500000000
		AND seconds = coalesce((SELECT max(seconds) FROM tiers WHERE session = ?1 AND closed_ns > ?2 AND seconds * 60000000000 <= ?3 - ?2), 1)`,
		s.id, max(from, s.Started.UnixNano()), min(to, max(s.Updated.UnixNano(), s.Ended.UnixNano())+1)).Scan(&sum)
	if err != nil {
		return 0, false, fmt.Errorf("count the calls of session %s: %w", s.ID, r.read(err))
	}
	return uint64(sum.Int64), sum.Valid, nil
}

// Rolled is [Reader.Summary] from rollups: it takes as long for a day as for a minute, and needs
// only the calls of the first and the last second. It lacks what rollups do not have, time inside
// other calls and gaps; [Reader.Accounts] returns where the time went.
func (r *Reader) Rolled(ctx context.Context, f Filter) (*Summary, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	sum := &Summary{Session: s, From: s.Started, To: later(s.Updated, s.Ended), Rebuilt: true, Gaps: tick.Gaps{}}
	if !f.cuts(sum.From, sum.To) { // the whole session: use its counts
		return r.Summary(ctx, f)
	}
	if f.From.After(sum.From) {
		sum.From = f.From
	}
	if !f.To.IsZero() {
		sum.To = later(earlier(sum.To, f.To), sum.From)
	}
	if err := r.facts(ctx, sum, f); err != nil {
		return nil, fmt.Errorf("session %s: %w", s.ID, err)
	}
	f.Session = s.ID
	all, cover, err := r.OpStats(ctx, f, Group{PID: true})
	if err != nil && !errors.Is(err, ErrNoCalls) {
		return nil, err
	}
	for i := range all {
		o := &all[i]
		sum.Ops = append(sum.Ops, tick.Op{PID: o.PID, Op: o.Op, Sum: o.Sum, Dur: o.Dur})
	}
	sum.CountedFrom, sum.CountedTo = cover.From, cover.To
	sum.Thinned = cover.Thinned || slices.ContainsFunc(sum.Drops, tick.Drop.LosesCalls)
	sum.Torn, sum.Damage = cover.Torn, cover.Damage
	sum.keepPresent()
	return sum, nil
}

// keepPresent drops processes that had ended before the window, or began after it.
func (sum *Summary) keepPresent() {
	sum.Processes = slices.DeleteFunc(sum.Processes, func(p tick.Process) bool {
		if sum.Gaps[p.PID] != nil || slices.ContainsFunc(sum.Ops, func(o tick.Op) bool { return o.PID == p.PID }) {
			return false
		}
		return !p.Ended.IsZero() && p.Ended.Before(sum.From) || p.Started.After(sum.To)
	})
}
