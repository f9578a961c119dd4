package probes_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// pressure runs the program that makes many calls that do nothing and some that
// take 200 us.
func pressure(t *testing.T, tr *probes.Tracer, library, program string) *probes.Attached {
	t.Helper()
	child := testkit.Start(t, exec.Command(program, "pressure"))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	a := attach(t, tr, library, events.LibCudart)
	child.Say("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	return a
}

// What calibration takes off must be what there is to take off: a function that
// does nothing then takes next to nothing, and one that works what it works.
func TestCalibrate(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			testkit.LeakCheck(t)
			tr := tracer(t, probes.Options{Mode: mode, Rows: rowsNamed(t, "cudaStreamSynchronize")})
			from := time.Now()
			c, err := tr.Calibrate(t.Context())
			t.Logf("took %v", time.Since(from))
			if err != nil {
				t.Fatal(err)
			}
			for at, cost := range c.Costs {
				t.Logf("place %d: %+v", at, cost)
				if cost.Inside <= 0 || cost.Entry <= 0 {
					t.Errorf("place %d costs %+v", at, cost)
				}
			}
			if c.Costs[probes.PlaceStepped].Inside <= c.Costs[probes.PlaceEmulated].Inside {
				t.Errorf("a stepped place costs %+v, an emulated one %+v", c.Costs[probes.PlaceStepped], c.Costs[probes.PlaceEmulated])
			}
			if c.SeccompHarm {
				t.Log("return probes kill processes with a seccomp filter here")
			}
			if n := len(accounts(t, tr)); n > 0 {
				t.Errorf("calibration left counts of %d rows behind", n)
			}
			a := pressure(t, tr, library, program)
			inside := int64(c.Costs[probes.PlaceEmulated].Inside)
			if a.Stepped > 0 {
				inside = int64(c.Costs[probes.PlaceStepped].Inside)
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
			if median := idle[len(idle)/2]; median > inside {
				t.Errorf("a call that does nothing takes %d ns, and the probe alone %d", median, inside)
			}
			if median := busy[len(busy)/2]; median < 200_000-inside || median > 300_000 {
				t.Errorf("a call of 200 us takes %d ns", median)
			}
		})
	}
}
