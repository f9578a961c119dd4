package query

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"ingero/internal/store"
)

// sqlDB is a database of two sessions on two machines.
func sqlDB(t *testing.T) *Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	for i, node := range []string{"gpu-7", "gpu-8"} {
		x := record(t, path, store.Session{ID: fmt.Sprintf("s%d", i+1), Node: node, Started: began.AddDate(0, 0, i)})
		for range 2 {
			x.second()
		}
		x.ledgerSecond()
		x.close()
	}
	return openReader(t, path)
}

func TestProto(t *testing.T) {
	r := sqlDB(t)
	for _, q := range []string{
		"SELECT node, source, count(*) FROM events GROUP BY node, source",
		"SELECT * FROM events LIMIT 3",
		"SELECT * FROM waits LIMIT 3",
		"SELECT * FROM op_stats",
		"SELECT * FROM op_stats(NULL,NULL,'op')",
		"SELECT * FROM quantile('cudaStreamSync', 0.99)",
		"SELECT * FROM timeline('1s')",
		"SELECT op, percentile(duration_ns, 99) FROM events WHERE op = 'cudaStreamSync' GROUP BY op",
		"SELECT * FROM sessions",
	} {
		res, err := r.SQL(context.Background(), q, SQLLimits{})
		if err != nil {
			t.Errorf("%s: %v", q, err)
			continue
		}
		t.Log(q, res.Columns, res.Took, res.Cut, res.Coverage)
		for _, row := range res.Rows {
			t.Log(row)
		}
	}
}
