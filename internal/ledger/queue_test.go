package ledger

import (
	"testing"

	"ingero/pkg/events"
)

// Launches of 1 ms of GPU time each; the first one returned at 1 ms.
func TestQueueHides(t *testing.T) {
	const ms = 1_000_000
	wait := func(at, length int64) events.Wait {
		return events.Wait{Start: at * ms, Duration: length * ms, State: events.WaitRunnable}
	}
	again := wait(4, 5)
	again.Flags = events.WaitPrevious
	for _, tt := range []struct {
		name     string
		launches uint32 // before the waits, of 20 in all
		waits    []events.Wait
		gpu      int64 // ms that the closing call waited
		want     int64 // ms
	}{
		{"hidden", 10, []events.Wait{wait(4, 5)}, 10, 5},
		{"longer than the queue", 5, []events.Wait{wait(4, 5)}, 10, 2},
		{"the queue was empty", 2, []events.Wait{wait(4, 5)}, 10, 0},
		{"the GPU was done", 10, []events.Wait{wait(4, 5)}, 0, 0},
		{"before the first launch", 10, []events.Wait{wait(0, 1)}, 10, 0},
		{"another culprit of the same wait", 10, []events.Wait{wait(4, 5), again}, 10, 5},
		{"two waits", 12, []events.Wait{wait(4, 2), wait(7, 2)}, 10, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q queue
			q.launch(tt.launches, 1*ms)
			for i := range tt.waits {
				q.wait(&tt.waits[i])
			}
			q.launch(20-tt.launches, 15*ms)
			if got := q.behind(21*ms, tt.gpu*ms); got != tt.want*ms {
				t.Errorf("%v ms are hidden, want %v", float64(got)/ms, tt.want)
			}
		})
	}
}
