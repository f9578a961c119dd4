package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"ingero/internal/store"
	"ingero/internal/tick"
)

// Chains returns the session's stored chains in their last states, most severe first: those of the
// filter's processes whose slow steps overlap the window. It ignores the filter's Ops. Chains
// outlive the calls.
func (r *Reader) Chains(ctx context.Context, f Filter) ([]tick.Chain, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	from, to := bounds(f)
	var out []tick.Chain
	err = r.rows(ctx, func(rows *sql.Rows) error {
		c, err := scanChain(rows)
		// A chain without times is included, since its time is unknown.
		early, late := !c.To.IsZero() && c.To.UnixNano() < from, !c.From.IsZero() && c.From.UnixNano() >= to
		if f.wants(c.PID) && !early && !late {
			out = append(out, c)
		}
		return err
	}, `SELECT id, rule, severity, pid, tid, op, from_ns, to_ns, lost_ns, lost_min_ns, lost_max_ns, window_ns, excess_ns, steps, slow,
		coalesce(confidence, 0), baseline, step_p50_ns, step_p99_ns, without_ns, op_p50_ns, op_p99_ns, culprits, timeline, not_it
		FROM chains WHERE session = ?`, s.id)
	if err != nil {
		return nil, fmt.Errorf("read the chains of session %s: %w", s.ID, err)
	}
	slices.SortFunc(out, func(a, b tick.Chain) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

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
