package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"ingero/internal/tick"
)

// EngineSteps returns the steps of inference servers' engines in the filter's window, summed up by
// process, thread, kind and graph. Rows of 10 s are in the window if their middle is. It ignores the
// filter's operations.
func (r *Reader) EngineSteps(ctx context.Context, f Filter) ([]tick.EngineSteps, error) {
	s, within, err := r.labelled(ctx, f)
	if err != nil {
		return nil, err
	}
	var out []tick.EngineSteps
	from, to := bounds(f)
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var begin, end int64
		x, err := scanEngineSteps(rows, &begin, &end)
		if err != nil || !f.wants(x.PID) || !within.Contains(x.PID, begin, end) {
			return err
		}
		if n := len(out); n == 0 || byEngine(&out[n-1], &x) != 0 {
			out = append(out, x)
		} else {
			out[n-1].Add(&x)
		}
		return nil
	}, `SELECT from_ns, to_ns, pid, tid, kind, graph, steps, served, idle_ns, gpu_ns, cpu_ns, runnable_ns, blocked_ns, unknown_ns, sketch FROM engine_steps
		WHERE session = ?1 AND to_ns > ?2 AND (from_ns + to_ns) / 2 >= ?2 AND (from_ns + to_ns) / 2 < ?3 ORDER BY pid, tid, kind, graph`, s.id, from, to)
	if err != nil {
		return nil, fmt.Errorf("read the engines of session %s: %w", s.ID, err)
	}
	return out, nil
}

// byEngine orders sums by what they are of.
func byEngine(a, b *tick.EngineSteps) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Graph, b.Graph))
}

func scanEngineSteps(rows *sql.Rows, begin, end *int64) (x tick.EngineSteps, err error) {
	var kind string
	var graph int64
	var sketch []byte
	if err := rows.Scan(begin, end, &x.PID, &x.TID, &kind, &graph, &x.Count, &x.Served, &x.Idle, &x.GPU, &x.CPU, &x.Runnable, &x.Blocked, &x.Unknown, &sketch); err != nil {
		return x, err
	}
	at := slices.Index(tick.EngineStepNames[:], kind)
	if at < 0 {
		return x, fmt.Errorf("unknown kind of step %q", kind)
	}
	x.Kind, x.Graph = tick.EngineStep(at), uint64(graph)
	return x, x.Dur.UnmarshalBinary(sketch)
}
