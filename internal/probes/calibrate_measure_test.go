//go:build measure

package probes_test

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/testkit"
)

// Calibration subtracts the true cost: a function that does nothing takes next to nothing, and one
// that works takes the time of its work.
func TestCalibrationIsTakenOff(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows("cudaStreamSynchronize")})
			from := time.Now()
			c, err := tr.Calibrate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			testkit.Measured(t, "calibration", time.Since(from).Seconds()*1e3, "ms", testkit.Lower)
			for at, cost := range c.Costs {
				t.Logf("place %d: %+v", at, cost)
				if cost.Inside <= 0 || cost.Entry <= 0 {
					t.Errorf("place %d costs %+v", at, cost)
				}
			}
			emulated, stepped := c.Costs[probes.PlaceEmulated], c.Costs[probes.PlaceStepped]
			testkit.Measured(t, "emulated", float64(emulated.Inside+emulated.Around), "ns", testkit.Lower)
			testkit.Measured(t, "stepped", float64(stepped.Inside+stepped.Around), "ns", testkit.Lower)
			if stepped.Inside <= emulated.Inside {
				t.Errorf("a stepped place costs %+v, an emulated one %+v", stepped, emulated)
			}
			if c.SeccompHarm {
				t.Log("return probes kill processes with a seccomp filter here")
			}
			a := pressure(t, tr, library, program, 40_000)
			inside := int64(emulated.Inside)
			if a.Stepped > 0 {
				inside = int64(stepped.Inside)
			}
			var idle, busy []int64
			for _, c := range drain(t, tr) {
				if c.Duration > 100_000 {
					busy = append(busy, c.Duration)
				} else {
					idle = append(idle, c.Duration)
				}
			}
			slices.Sort(idle)
			slices.Sort(busy)
			median := idle[len(idle)/2]
			testkit.Measured(t, "empty-call", float64(median), "ns", testkit.Lower)
			if median > inside {
				t.Errorf("a call that does nothing takes %d ns, and the probe alone %d", median, inside)
			}
			if median := busy[len(busy)/2]; median < 200_000-inside || median > 300_000 {
				t.Errorf("a call of 200 us takes %d ns", median)
			}
		})
	}
}
