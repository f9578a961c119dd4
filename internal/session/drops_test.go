package session_test

import (
	"slices"
	"testing"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// noDrops checks that nothing was dropped, except for the given reasons. It ignores overwritten
// lines of the kernel log, which other programs write to.
func noDrops(t testing.TB, last *tick.Tick, but ...string) {
	t.Helper()
	for _, d := range last.Drops {
		if d.Count > 0 && d.Reason != "kernel-log-overwritten" && !testkit.HasNoAccount(d.Reason) && !slices.Contains(but, d.Reason) {
			t.Errorf("dropped: %d, %s", d.Count, d.Reason)
		}
	}
}
