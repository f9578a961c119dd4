package retention_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/retention"
	"ingero/internal/testkit"
)

// A pass deletes expired rows of a bounded number of sessions, and the next passes those of the others.
func TestTrimManySessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := store.Migrate(path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	for _, text := range []string{
		`CREATE TEMP TABLE n AS WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 600) SELECT id FROM n`,
		`INSERT INTO sessions (id, uid, node, started_ns, updated_ns, state, problem, mono_offset_ns, version, kernel, mode, target, agent_pid, agent_cpu_ns, records)
			SELECT id, id, 'gpu-7', id, id, 'ended', '', 0, '', '', 'trace', '', 1, 0, 0 FROM n`,
		`INSERT INTO host_sums (session, time_ns, window_ns, kind, pid, sender, object, comm, failed) SELECT id, id, 1, 'disk-write', 7, 0, 'vda', 'x', 0 FROM n`,
		`INSERT INTO tiers (session, seconds, kept_ns, closed_ns) SELECT id, s, 0, 1000 * id FROM n, (SELECT 1 AS s UNION SELECT 10)`,
		`INSERT INTO rollups SELECT id, 1, id, 7, 7, 1, 1, 0, 0, 0, 5, 5, 0, 0, 0, 0, 0, x'00' FROM n`,
	} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	r := retention.NewRows(db, 600)
	now := time.Unix(1_800_000_000, 0)
	for i, want := range []string{"344 343", "88 87", "0 0", "0 0"} {
		if err := r.Trim(now.Add(time.Duration(i) * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if got := testkit.Rows(t, path, "SELECT (SELECT count(*) FROM host_sums), (SELECT count(*) FROM rollups)"); got != want {
			t.Errorf("pass %d: %s rows are left, want %s", i+1, got, want)
		}
	}
}
