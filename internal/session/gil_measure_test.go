//go:build measure

package session_test

import (
	"testing"

	"ingero/internal/testkit"
)

// Threads wait for the GIL, or for a CPU, as long as it is held, and their GIL waits have the
// holder.
func TestGILTimes(t *testing.T) {
	for _, how := range []string{"sleep", "sync"} {
		t.Run(how, func(t *testing.T) {
			g := runGIL(t, systemPython(t), how, "25")
			held, _ := g.end(t)
			named, all, runnable := g.waited(t)
			t.Logf("held for %v; waited for it %v, of which %v with the holder, its line and its call; and %v for a CPU", held, all, named, runnable)
			testkit.Measured(t, "found", 100*float64(all+runnable)/float64(held), "%", testkit.Higher)
			testkit.Measured(t, "named", 100*float64(named)/float64(max(all, 1)), "%", testkit.Higher)
			if all+runnable < held*8/10 || named < all*9/10 {
				t.Error("that is too little")
			}
		})
	}
}
