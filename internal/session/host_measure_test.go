//go:build measure

package session_test

import (
	"fmt"
	"math"
	"testing"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// Disk requests take as long as the kernel's tracer sees.
func TestHostDiskTimes(t *testing.T) {
	c, r, _, _, seen := useDisk(t, 200)
	for kind, trace := range map[tick.HostEvent]string{tick.HostDiskWrite: "W", tick.HostDiskRead: "R"} {
		s := r.of(kind, c.PID())
		_, hidden, ns := requests(seen, fmt.Sprintf("hostwork-%d", c.PID()), trace)
		if hidden > 0 {
			t.Logf("%v: %d requests were not seen: %d ns, the kernel's tracer saw %.0f ns", kind, hidden, s.NS, ns)
			continue
		}
		off := math.Abs(float64(s.NS) - ns)
		testkit.Measured(t, fmt.Sprintf("%v-off", kind), 100*off/ns, "%", testkit.Lower)
		if off > 0.05*ns {
			t.Errorf("%v: %d ns, the kernel's tracer saw %.0f ns", kind, s.NS, ns)
		}
	}
}
