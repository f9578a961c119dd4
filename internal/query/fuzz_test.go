package query

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Any statement is answered within its bounds or refused, and changes nothing.
func FuzzSQL(f *testing.F) {
	for _, tt := range refused {
		f.Add(tt.text)
	}
	f.Add("SELECT op, count(*) FROM events GROUP BY op")
	f.Add("SELECT * FROM op_stats() WHERE calls > 1 ORDER BY 2")
	f.Add("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT sum(x) FROM c")
	r := sqlDB(f)
	limits := SQLLimits{Time: 10 * time.Millisecond, Rows: 10} // many inputs never end
	f.Fuzz(func(t *testing.T, text string) {
		res, err := r.SQL(context.Background(), text, limits)
		var wrong *SQLError
		if err != nil && !errors.As(err, &wrong) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %T: %v", text, err, err)
		}
		if err == nil && len(res.Rows) > limits.Rows {
			t.Errorf("%q: %d rows", text, len(res.Rows))
		}
		if res, err := r.SQL(context.Background(), "SELECT count(*) FROM sessions", SQLLimits{}); err != nil || res.Rows[0][0] != int64(2) {
			t.Fatalf("after %q: %v, %v", text, res, err)
		}
	})
}
