//go:build measure

package redact

import (
	"testing"
	"time"

	"ingero/internal/testkit"
)

// Any command line is processed in little time: some 25 ms at most, as against 4 s when each
// argument is compared with all before.
func TestHostileLinesAreQuick(t *testing.T) {
	worst := time.Duration(0)
	for _, unit := range hostileUnits {
		for name, args := range hostileLines(unit) {
			began := time.Now()
			Args(args)
			d := time.Since(began)
			if worst = max(worst, d); d > 2*time.Second {
				t.Errorf("%s of %q took %v", name, unit, d)
			}
		}
	}
	testkit.Measured(t, "slowest-line", worst.Seconds()*1e3, "ms", testkit.Lower)
}
