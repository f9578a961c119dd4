package query

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"ingero/internal/store"
	"ingero/internal/tick"
)

// Chains returns the session's stored chains, most severe first: those of the filter's processes
// that overlap the window. A chain is in its last state. If only an earlier episode of it overlaps
// the window, its times, severity, loss and culprits are the episode's. It ignores the filter's
// Ops. Chains outlive the calls.
func (r *Reader) Chains(ctx context.Context, f Filter) ([]tick.Chain, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	out, err := r.chains(ctx, &s, f)
	if err != nil {
		return nil, fmt.Errorf("read the chains of session %s: %w", s.ID, err)
	}
	tick.SortChains(out)
	return out, nil
}

func (r *Reader) chains(ctx context.Context, s *Session, f Filter) (out []tick.Chain, err error) {
	if f.From.IsZero() && f.To.IsZero() {
		err = r.rows(ctx, func(rows *sql.Rows) error {
			c, err := scanChain(rows)
			if f.wants(c.PID) {
				out = append(out, c)
			}
			return err
		}, chainRows, s.id)
		return out, err
	}
	return r.windowChains(ctx, s, f)
}

// ChainsKept returns the time from which retention has deleted no chain of the session: chains that
// ended earlier may be missing.
func (r *Reader) ChainsKept(ctx context.Context, s *Session) (time.Time, error) {
	var kept int64 // only the deletion of a session's oldest rows, such as chains, moves the edge of the coarsest rollups
	err := r.db.QueryRowContext(ctx, "SELECT coalesce(max(kept_ns), ?) FROM tiers WHERE session = ? AND seconds = 3600", math.MinInt64, s.id).Scan(&kept)
	if err != nil {
		return time.Time{}, fmt.Errorf("read how far the chains of session %s go back: %w", s.ID, err)
	}
	return unixTime(kept), nil
}

const chainRows = `SELECT id, rule, severity, pid, tid, op, from_ns, to_ns, lost_ns, lost_min_ns, lost_max_ns, window_ns, excess_ns, steps, slow,
	coalesce(confidence, 0), baseline, step_p50_ns, step_p99_ns, without_ns, op_p50_ns, op_p99_ns, culprits, timeline, not_it
	FROM chains WHERE session = ?1`

func scanChain(rows *sql.Rows) (c tick.Chain, err error) {
	var severity string
	var from, to sql.NullInt64
	var quantiles [5]sql.NullInt64
	var culprits, timeline, notIt []byte
	err = rows.Scan(&c.ID, &c.Rule, &severity, &c.PID, &c.TID, &c.Op, &from, &to, &c.Lost, &c.LostMin, &c.LostMax, &c.Window, &c.Excess,
		&c.Steps, &c.Slow, &c.Confidence, &c.Baseline, &quantiles[0], &quantiles[1], &quantiles[2], &quantiles[3], &quantiles[4],
		&culprits, &timeline, &notIt)
	if err != nil {
		return c, err
	}
	c.From, c.To = null(from), null(to)
	for i, d := range [...]*time.Duration{&c.StepP50, &c.StepP99, &c.Without, &c.OpP50, &c.OpP99} {
		*d = time.Duration(quantiles[i].Int64)
	}
	c.Severity, _ = tick.ParseSeverity(severity)
	return c, store.UnmarshalChain(&c, culprits, timeline, notIt)
}
