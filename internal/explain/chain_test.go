package explain

import (
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// What a chain cost and what is slow are said only where there is something to say.
func TestChainWeight(t *testing.T) {
	malloc, _ := events.OpByName("cudaMalloc")
	ms := time.Millisecond
	for name, tt := range map[string]struct {
		chain          tick.Chain
		headline, lost string
	}{
		"a part of the time": {tick.Chain{Lost: 20 * ms, LostMin: 20 * ms, LostMax: 20 * ms, Window: time.Second, Steps: 50, Slow: 5, StepP50: 10 * ms, StepP99: 20 * ms, Without: 11 * ms},
			"step p99=20.0ms (2.0x p50) - ", "20.0 ms of 1.00 s (2.0 %): 5 of 50 steps were slow; without it p99 would be 11.0 ms, not 20.0 ms"},
		"one that changes no p99": {tick.Chain{Lost: 20 * ms, LostMin: 20 * ms, LostMax: 20 * ms, Window: time.Second, Steps: 50, Slow: 1, StepP50: 10 * ms, StepP99: 10 * ms, Without: 10 * ms},
			"step p99=10.0ms - ", "20.0 ms of 1.00 s (2.0 %): 1 of 50 steps was slow"},
		"nothing was lost": {tick.Chain{Window: time.Second, Steps: 49, Op: malloc, OpP50: ms, OpP99: 3 * ms, StepP50: 10 * ms, StepP99: 10 * ms, Without: 10 * ms},
			"cudaMalloc p99=3.00ms (3.0x p50) - ", "nothing yet; it is as grave as what may follow from it"},
	} {
		t.Run(name, func(t *testing.T) {
			words := causeWords{head: func(*tick.Chain) string { return "" }}
			if got := headline(&tt.chain, &words); got != tt.headline {
				t.Errorf("%q, want %q", got, tt.headline)
			}
			if got := lostText(&chainJSON{LostNS: int64(tt.chain.Lost), LostMinNS: int64(tt.chain.LostMin), LostMaxNS: int64(tt.chain.LostMax), WindowNS: int64(tt.chain.Window),
				Steps: tt.chain.Steps, SlowSteps: tt.chain.Slow, StepP99NS: int64(tt.chain.StepP99), WithoutNS: int64(tt.chain.Without)}); got != tt.lost {
				t.Errorf("%q, want %q", got, tt.lost)
			}
		})
	}
}
