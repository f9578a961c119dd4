package cli

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/mute"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// A running trace hides silenced causes from the next tick on, and closes the database with the
// last tick.
func TestHide(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	h := &chainFilter{Filter: mute.Filter{Least: tick.Medium}, path: path, log: slog.New(slog.DiscardHandler)}
	now := time.Unix(1_700_000_000, 0)
	step := func(final bool) (chains, hidden int) {
		t.Helper()
		now = now.Add(time.Second)
		x := &tick.Tick{Time: now, Final: final, Chains: []tick.Chain{
			{ID: "c-1", Rule: "cpu-taken", Severity: tick.High}, {ID: "c-2", Rule: "lock-wait", Severity: tick.Low}}}
		x.Chains, x.Hidden = h.hide(x.Time, x.Final, x.Chains)
		return len(x.Chains), len(x.Hidden)
	}
	silence := func(s store.Silencing) {
		t.Helper()
		s.Path, s.Now = path, now
		if _, err := store.Silence(s); err != nil {
			t.Fatal(err)
		}
	}
	want := func(final bool, chains int) {
		t.Helper()
		if c, n := step(final); c != chains || n != 2-chains {
			t.Errorf("%d chains are shown and %d not, want %d and %d", c, n, chains, 2-chains)
		}
	}
	want(false, 1) // no database yet
	db, err := store.Open(store.Options{Path: path, Session: segment.Session{ID: "s", Started: now}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	want(false, 1)
	silence(store.Silencing{Add: &tick.Silence{What: "c-1", Since: now, Until: now.Add(time.Hour)}})
	want(false, 0)
	silence(store.Silencing{Remove: "c-1"})
	want(false, 1)
	silence(store.Silencing{Add: &tick.Silence{What: "cpu-taken", Since: now, Until: now.Add(2500 * time.Millisecond)}})
	want(false, 0)
	want(false, 0)
	want(false, 1) // it has expired
	want(true, 1)
	if h.db != nil {
		t.Error("the database is still open")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if isThere(path + "-wal") {
		t.Error("the write-ahead log was left")
	}
}
