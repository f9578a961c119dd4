package tick

import (
	"math/rand/v2"
	"testing"

	"ingero/pkg/events"
)

func TestGap(t *testing.T) {
	for _, tt := range []struct {
		name string
		call events.Call
		want Gap
	}{
		{"a thread's first call", events.Call{Weight: 1, Duration: 5}, Gap{Calls: 1}},
		{"split", events.Call{Weight: 1, Gap: 100, GapOnCPU: 60, GapRunnable: 30, GapBlocked: 10},
			Gap{Calls: 1, Count: 1, Total: 100, OnCPU: 60, Runnable: 30, Blocked: 10}},
		{"throttled", events.Call{Weight: 1, Gap: 100, GapOnCPU: 60, GapThrottled: 25, GapBlocked: 15},
			Gap{Calls: 1, Count: 1, Total: 100, OnCPU: 60, Throttled: 25, Blocked: 15}},
		{"weight", events.Call{Weight: 8, Gap: 100, GapOnCPU: 100}, Gap{Calls: 8, Count: 8, Total: 100, OnCPU: 100}},
		{"seven others were made since", events.Call{Weight: 8, Duration: 10, OnCPU: 6, Blocked: 4, Gap: 200, GapOnCPU: 100, GapBlocked: 100},
			Gap{Calls: 8, Count: 8, Total: 130, OnCPU: 58, Blocked: 72}},
		{"a first that others came after", events.Call{Weight: 2, Duration: 10, OnCPU: 10}, Gap{Calls: 2, left: gapParts{10}}},
		{"not split", events.Call{Weight: 1, Gap: 100, GapRunnable: 30, GapBlocked: 70, Flags: events.CallGapPartial},
			Gap{Calls: 1, Count: 1, Total: 100, Runnable: 30, Partial: 70}},
		{"parts ahead of the whole", events.Call{Weight: 1, Gap: 100, GapOnCPU: 90, GapRunnable: 40},
			Gap{Calls: 1, Count: 1, Total: 100, OnCPU: 60, Runnable: 40}},
		{"negative", events.Call{Weight: 1, Gap: -3, GapOnCPU: -3}, Gap{Calls: 1}},
		{"nested", events.Call{Weight: 1, Gap: 100, Flags: events.CallNested}, Gap{}},
		{"not measured", events.Call{Weight: 1, Flags: events.CallUnmeasured}, Gap{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var g Gap
			g.Add(&tt.call)
			if g != tt.want {
				t.Errorf("%+v, want %+v", g, tt.want)
			}
			if g.OnCPU+g.Runnable+g.Throttled+g.Blocked+g.Partial != g.Total {
				t.Errorf("the parts of %+v do not add up", g)
			}
		})
	}
}

// In a loop, one in eight calls has a record, and the gap before it contains the others: the time
// between calls is the same as with all records.
func TestGapOfThinnedCalls(t *testing.T) {
	const calls, each, between = 80_000, 3, 5
	random := rand.New(rand.NewPCG(1, 2))
	var all, thinned Gap
	since := int64(0) // of the last call with a record
	for range calls {
		c := events.Call{Weight: 1, Duration: each, OnCPU: each, Gap: between, GapOnCPU: 2, GapRunnable: 3}
		all.Add(&c)
		if random.IntN(8) > 0 {
			since += each + between
			continue
		}
		n := since / (each + between)
		c.Weight, c.Gap, c.GapOnCPU, c.GapRunnable = 8, since+between, n*(each+2)+2, 3*(n+1)
		thinned.Add(&c)
		since = 0
	}
	// Ten thousand records represent eight calls each.
	// The standard deviation is 8 * sqrt(80,000 * 1/8 * 7/8) = 748 calls of 3 ns: 0.7 % of the
	// 160,000 ns on a CPU. A tolerance of 5 % shows whether the right amount is subtracted.
	for _, x := range [][2]uint64{{all.OnCPU, thinned.OnCPU}, {all.Runnable, thinned.Runnable}, {all.Total, thinned.Total}} {
		if x[1] < x[0]*95/100 || x[1] > x[0]*105/100 {
			t.Errorf("with all records %+v, with one in eight %+v", all, thinned)
			break
		}
	}
}
