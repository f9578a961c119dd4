package causal

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// A chain judged with fewer inputs says so. Possible extra losses reduce its confidence; without
// them, as for a fault that costs no time, the confidence stays.
func TestChainsJudgedWithLess(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	now := begin.Add(4 * time.Second)
	rule := &Rule{Name: "disk-wait", Sees: govern.HostEvents}
	for _, tt := range []struct {
		name                  string
		lost                  time.Duration
		unknown               time.Duration
		confidence, certainly float64
		most                  time.Duration
	}{
		{"nothing was lost", 0, 0, 0.8, 0.8, 0},
		{"a loss, and nothing beside", time.Second, 0, 0.8, 0.8, time.Second},
		{"as much may have been lost beside", time.Second, time.Second, 0.8, 0.4, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			e.look(&tick.Tick{Time: begin, Overhead: tick.Overhead{Shed: []string{"host-off"}}})
			x := Finding{PID: 7, From: begin.UnixNano(), Window: int64(4 * time.Second), Lost: int64(tt.lost), Max: int64(tt.lost), Confidence: tt.confidence, rule: rule}
			e.weaken(&x, float64(tt.unknown), now.UnixNano())
			if x.Confidence != tt.certainly || x.Max != int64(tt.most) || !strings.Contains(x.Baseline, "judged with less") {
				t.Errorf("confidence %v, at most %v lost, %q; want %v and %v", x.Confidence, time.Duration(x.Max), x.Baseline, tt.certainly, tt.most)
			}
		})
	}
}
