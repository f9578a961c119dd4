package ledger

import (
	"testing"

	"ingero/pkg/events"
)

// The thread that releases the GIL has held it in all turns of a wait, but not before another
// thread held it.
func TestHeld(t *testing.T) {
	holder, other := events.Thread{PID: 1, TID: 2}, events.Thread{PID: 1, TID: 3}
	turn := func(start, end int64, who events.Thread, stack, passed uint32) queued {
		return queued{Wait: events.Wait{Start: start, Duration: end - start, State: events.WaitBlocked, Reason: events.ReasonGIL, Who: who, Stack: stack, Passed: passed}}
	}
	for _, tt := range []struct {
		name  string
		first queued
		last  queued
		want  uint32 // expected stack of the first turn
	}{
		{"the next turn", turn(0, 5e6, holder, 0, 4), turn(51e5, 6e6, holder, 7, 4), 7},
		{"the next turn after a long time on a CPU", turn(0, 5e6, holder, 0, 4), turn(9e6, 10e6, holder, 7, 4), 7},
		{"it had the lock in between", turn(0, 5e6, holder, 0, 4), turn(51e5, 6e6, holder, 7, 6), 0},
		{"another thread has it", turn(0, 5e6, other, 0, 4), turn(51e5, 6e6, holder, 7, 4), 0},
		{"the holder was not known", turn(0, 5e6, events.Thread{}, 0, 4), turn(51e5, 6e6, holder, 7, 4), 7},
		{"not recorded, close", turn(0, 5e6, holder, 0, 0), turn(51e5, 6e6, holder, 7, 0), 7},
		{"not recorded, apart", turn(0, 5e6, holder, 0, 0), turn(9e6, 10e6, holder, 7, 0), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			waits := []queued{tt.first, {Wait: events.Wait{Start: 5e6, Duration: 1000, State: events.WaitRunnable}}, tt.last}
			attributeGIL(waits)
			if got := waits[0].Stack; got != tt.want {
				t.Errorf("the stack of the first turn is %d, want %d", got, tt.want)
			}
		})
	}
}
