package explain

import (
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// The cost and the length of slow steps are reported only if they are known.
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
		"slow steps that no p99 has": {tick.Chain{Lost: 980 * ms, LostMin: 980 * ms, LostMax: 980 * ms, Window: 20 * time.Second, Steps: 2000, Slow: 10, StepP50: 2 * ms, StepP99: 2 * ms, Without: 2 * ms},
			"slow steps take 100ms (50.0x p50) - ", "980 ms of 20.0 s (4.9 %): 10 of 2,000 steps were slow"},
		"few that are hardly slower": {tick.Chain{Lost: 10 * ms, LostMin: 10 * ms, LostMax: 10 * ms, Window: 20 * time.Second, Steps: 2000, Slow: 10, StepP50: 2 * ms, StepP99: 2 * ms},
			"step p99=2.00ms - ", "10.0 ms of 20.0 s (0.1 %): 10 of 2,000 steps were slow"},
		"nothing was lost": {tick.Chain{Window: time.Second, Steps: 49, Op: malloc, OpP50: ms, OpP99: 3 * ms, StepP50: 10 * ms, StepP99: 10 * ms, Without: 10 * ms},
			"cudaMalloc p99=3.00ms (3.0x p50) - ", "nothing yet; the severity reflects what may follow"},
	} {
		t.Run(name, func(t *testing.T) {
			words := causeWords{head: func(*tick.Chain) string { return "" }}
			if got := headline(&tt.chain, &words); got != tt.headline {
				t.Errorf("%q, want %q", got, tt.headline)
			}
			if got := lostText(&wire.Chain{LostNS: int64(tt.chain.Lost), LostMinNS: int64(tt.chain.LostMin), LostMaxNS: int64(tt.chain.LostMax), WindowNS: int64(tt.chain.Window),
				Steps: tt.chain.Steps, SlowSteps: tt.chain.Slow, StepP99NS: int64(tt.chain.StepP99), WithoutNS: int64(tt.chain.Without)}); got != tt.lost {
				t.Errorf("%q, want %q", got, tt.lost)
			}
		})
	}
}

// The headline of a cold start has its length in normal steps, if known.
func TestHeadCold(t *testing.T) {
	for _, tt := range []struct {
		lost, p50 time.Duration
		want      string
	}{
		{1200 * time.Millisecond, 10 * time.Millisecond, "a cold start, 120x a normal step"},
		{1200 * time.Millisecond, 0, "a cold start"},
		{15 * time.Millisecond, 10 * time.Millisecond, "a cold start"},
	} {
		if got := headCold(&tick.Chain{Lost: tt.lost, StepP50: tt.p50}); got != tt.want {
			t.Errorf("%v at %v a step: %q, want %q", tt.lost, tt.p50, got, tt.want)
		}
	}
}

// Names of programs are quoted, and other names are not.
func TestQuotedNames(t *testing.T) {
	c := &tick.Chain{Culprits: []tick.Culprit{{Thread: events.Thread{PID: 7, TID: 7, Name: events.NameOf("go")}}, {What: "disk 8:0"}}}
	if got := quotedNames(c); got != `"go" and disk 8:0` {
		t.Errorf("%s", got)
	}
}
