package session_test

import (
	"slices"
	"testing"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// noDrops checks that nothing was lost, for whatever reason but these. The kernel's log is
// the machine's: others may write more to it than it has room for.
func noDrops(t testing.TB, last *tick.Tick, but ...string) {
	t.Helper()
	for _, d := range last.Drops {
		if d.Count > 0 && d.Reason != "kernel-log-overwritten" && !testkit.HasNoAccount(d.Reason) && !slices.Contains(but, d.Reason) {
			t.Errorf("dropped: %d, %s", d.Count, d.Reason)
		}
	}
}
