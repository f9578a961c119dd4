package query

import (
	"context"
	"database/sql"
	"fmt"

	"ingero/internal/store"
	"ingero/internal/tick"
)

// maxXids bounds the returned faults.
const maxXids = 1 << 14

// Xids returns the GPU faults in the filter's window, in their order: those that hit a selected
// process, and those that name none.
func (r *Reader) Xids(ctx context.Context, f Filter) ([]tick.Xid, error) {
	s, within, err := r.labelled(ctx, f)
	if err != nil {
		return nil, err
	}
	from, to := bounds(f)
	var out []tick.Xid
	err = r.rows(ctx, func(rows *sql.Rows) error {
		x, err := scanXid(rows)
		if (x.PID == 0 || f.wants(x.PID)) && within.Contains(x.PID, x.Time, x.Time) && len(out) < maxXids {
			out = append(out, x)
		}
		return err
	}, `SELECT time_ns, code, switch, bus, msg, via, injected, coalesce(said_pid, 0), said_name, coalesce(pid, 0), comm, burst, at, root, after_ns, last,
		gpu_instance, compute_instance, coalesce(caused_by, 0), no_code
		FROM xids WHERE session = ? AND time_ns >= ? AND time_ns < ? ORDER BY time_ns, burst, at`, s.id, from, to)
	if err != nil {
		return nil, fmt.Errorf("read the faults of session %s: %w", s.ID, err)
	}
	return out, nil
}

func scanXid(rows *sql.Rows) (x tick.Xid, err error) {
	var via, last string
	var instance, compute sql.NullInt64
	if err := rows.Scan(&x.Time, &x.Code, &x.Switch, &x.Bus, &x.Msg, &via, &x.Injected, &x.SaidPID, &x.SaidName, &x.PID, &x.Comm,
		&x.Burst, &x.At, &x.Root, &x.After, &last, &instance, &compute, &x.CausedBy, &x.NoCode); err != nil {
		return x, err
	}
	x.Via = tick.ViaOf(via)
	for to, n := range map[*tick.Number]sql.NullInt64{&x.GPUInstance: instance, &x.ComputeInstance: compute} {
		if n.Valid {
			*to = tick.Numbered(uint32(n.Int64))
		}
	}
	x.Last, err = store.LastCalls(last)
	return x, err
}

// GPUs returns the number of GPUs of a session's machine, 0 if unknown.
func (r *Reader) GPUs(ctx context.Context, s *Session) (n int, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT count(*) FROM gpus WHERE session = ?", s.id).Scan(&n)
	return n, r.read(err)
}
