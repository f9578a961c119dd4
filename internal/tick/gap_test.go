package tick

import (
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
		{"weight", events.Call{Weight: 8, Gap: 100, GapOnCPU: 100}, Gap{Calls: 8, Count: 8, Total: 800, OnCPU: 800}},
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
