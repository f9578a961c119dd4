//go:build measure

package ledger

import (
	"bytes"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// Time stolen by a hypervisor is runnable time with an owner. There may be no hypervisor here, so
// the BPF programs are made to see an eighth of all time as stolen.
func TestStolen(t *testing.T) {
	testkit.NeedTool(t, "clang-14")
	const eighth = 8
	object := compile(t, "steal.h", "\t__u64 ns = 0;\n", "\t__u64 ns = bpf_ktime_get_ns() / 8;\n\n\treturn ns;\n")
	for _, r := range observe(t, tracing{object: bytes.NewReader(object)},
		workload{name: "spin", scenario: "spin", count: 100, each: 3 * ms},
		workload{name: "nested", scenario: "nested", count: 100, each: 3 * ms},
		workload{name: "hog", scenario: "spin", count: 60, each: 12 * ms, hogs: []string{"spin CPU"}},
	) {
		t.Run(r.name, func(t *testing.T) {
			r.exact(t)
			judged, wrong := 0, 0
			r.eachCall(func(i int, in []events.Wait) {
				c := &r.calls[i]
				stolen := taken(in, func(w *events.Wait) bool { return w.Reason == events.ReasonHypervisor && w.Op == c.Op })
				had := c.OnCPU + stolen
				if had < eighth*4*recorded {
					return
				}
				judged++
				if distance(stolen, had/eighth) > had/50+2*recorded {
					wrong++
					t.Logf("call %d: of %v on its CPU %v were stolen, want an eighth", i, time.Duration(had), time.Duration(stolen))
				}
			})
			// A real hypervisor can interfere between two readings.
			if judged < r.count/2 || wrong > judged/10 {
				t.Errorf("%d of %d calls are not right, of %d", wrong, judged, r.count)
			}
		})
	}
}
