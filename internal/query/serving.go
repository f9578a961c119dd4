package query

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"ingero/internal/tick"
)

// Serving returns the processes that answered requests in the filter's window: engines of inference servers, and
// those that received data from clients.
func (r *Reader) Serving(ctx context.Context, f Filter) (map[uint32]bool, error) {
	s, _, err := r.labelled(ctx, f)
	if err != nil {
		return nil, err
	}
	const row = int64(10 * time.Second) // length of a row that ends after the window
	from, to := bounds(f)
	out := map[uint32]bool{}
	err = r.rows(ctx, func(rows *sql.Rows) error {
		x := tick.HostSum{}
		err := rows.Scan(&x.PID, &x.Object)
		if err == nil && (x.Object == "" || x.FromClient()) {
			out[x.PID] = true
		}
		return err
	}, `SELECT DISTINCT pid, '' FROM engine_steps WHERE session = ?1 AND to_ns > ?2 AND to_ns <= ?3
		UNION SELECT DISTINCT pid, object FROM host_sums WHERE session = ?1 AND time_ns > ?2 AND time_ns <= ?3 AND kind = ?4 AND object != ''`,
		s.id, from, min(to, math.MaxInt64-row)+row, tick.HostReceive.String())
	if err != nil {
		return nil, fmt.Errorf("read the clients of session %s: %w", s.ID, err)
	}
	return out, nil
}
