package query

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"ingero/internal/tick"
)

// Silences returns the silences in effect at a time, by name.
func (r *Reader) Silences(ctx context.Context, now time.Time) ([]tick.Silence, error) {
	var out []tick.Silence
	err := r.rows(ctx, func(rows *sql.Rows) error {
		var s tick.Silence
		var since, until int64
		err := rows.Scan(&s.What, &since, &until, &s.Reason, &s.Who)
		s.Since, s.Until = time.Unix(0, since), time.Unix(0, until)
		out = append(out, s)
		return err
	}, "SELECT what, since_ns, until_ns, reason, who FROM silences WHERE until_ns > ? ORDER BY what", now.UnixNano())
	if err != nil {
		return nil, fmt.Errorf("read silences: %w", err)
	}
	return out, nil
}
