package probes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/probes"
	"ingero/internal/testkit"
)

// Calibration measures the probe at each kind of place, leaves nothing behind, and each later call
// is counted and has a record.
func TestCalibrate(t *testing.T) {
	testkit.NeedBPF(t)
	library, program := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			testkit.LeakCheck(t)
			tr := tracer(t, probes.Options{Mode: mode, SamplingRate: 1, Rows: testkit.OpRows("cudaStreamSynchronize")})
			c, err := tr.Calibrate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []probes.Place{probes.PlaceEmulated, probes.PlaceStepped} {
				if cost, ok := c.Costs[at]; !ok || cost.Inside < 0 || cost.Around < 0 || cost.Entry < 0 {
					t.Errorf("place %d costs %+v, measured: %v", at, cost, ok)
				}
			}
			if n, err := tr.Duplicates(); err != nil || n != 0 || c.Again < 0 {
				t.Errorf("a further link costs %d ns; %d duplicates are left behind, %v", c.Again, n, err)
			}
			if n := len(accounts(t, tr)); n > 0 {
				t.Errorf("calibration left counts of %d rows behind", n)
			}
			const total = 2000
			pressure(t, tr, library, program, total)
			want := map[string]account{"cudaStreamSynchronize": {Calls: total, Done: total}}
			if diff := cmp.Diff(want, accounts(t, tr)); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			calls := drain(t, tr)
			if len(calls) != total {
				t.Errorf("%d records, want %d", len(calls), total)
			}
			for i := range calls {
				if d := calls[i].Duration; d < 0 {
					t.Fatalf("call %d took %d ns", i, d)
				}
			}
		})
	}
}
