package causal

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/govern"
	"ingero/internal/tick"
)

// A chain that was judged with less says so. What may have been lost beside makes it less
// certain; where nothing may, as of a fault that costs no time, it stays as certain as it was.
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
			c := tick.Chain{PID: 7, From: begin, Window: 4 * time.Second, Lost: tt.lost, LostMax: tt.lost, Confidence: tt.confidence}
			e.weaken(&c, rule, float64(tt.unknown), now.UnixNano())
			if c.Confidence != tt.certainly || c.LostMax != tt.most || !strings.Contains(c.Baseline, "judged with less") {
				t.Errorf("confidence %v, at most %v lost, %q; want %v and %v", c.Confidence, c.LostMax, c.Baseline, tt.certainly, tt.most)
			}
		})
	}
}
