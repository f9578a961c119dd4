//go:build measure

package cli

import (
	"testing"

	"ingero/internal/testkit"
)

// The reported median of NVTX steps is within 5 % of the program's own.
func TestNamedStepsTakeAsLong(t *testing.T) {
	want, got := newBench(t).namedSteps()
	off := 100 * (float64(got.p50)/float64(want.p50) - 1)
	testkit.Measured(t, "median-off", max(off, -off), "%", testkit.Lower)
	if off < -5 || off > 5 {
		t.Errorf("the median is %v, want %v", got.p50, want.p50)
	}
}
