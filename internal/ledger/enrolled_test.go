package ledger

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A thread that woke others before it makes calls has its waits from its first call on, also those in
// the batch of that call.
func TestWakerThatMakesCalls(t *testing.T) {
	op, _ := events.OpByName("cudaDeviceSynchronize")
	const ms = 1_000_000
	at := int64(base)
	wait := func(start, ns int64, hop uint8) events.Wait {
		return events.Wait{Start: at + start*ms, Duration: ns * ms, PID: 7, TID: 9, State: events.WaitBlocked, Reason: events.ReasonSocket, Hop: hop}
	}
	call := func(start, gap int64) events.Call {
		return events.Call{Start: at + start*ms, Duration: ms, OnCPU: ms, PID: 7, TID: 9, Op: op, Weight: 1, Gap: gap * ms, GapBlocked: gap * ms}
	}
	l := New(0)
	l.Batch([]events.Wait{wait(0, 0, 1), wait(10, 3, 1)}, nil)
	steps := l.Batch([]events.Wait{wait(20, 4, 1), wait(51, 5, 0), wait(57, 6, 0)}, []events.Call{call(50, 0), call(56, 5), call(63, 6)})
	if len(steps) != 2 {
		t.Fatalf("%d steps, want 2", len(steps))
	}
	for i, want := range []int64{5 * ms, 6 * ms} {
		if got := steps[i].Parts.Blocked[events.ReasonSocket]; got != want || len(steps[i].Waits) != 1 {
			t.Errorf("step %d waited %d ns for a socket in %d waits, want %d in one", i, got, len(steps[i].Waits), want)
		}
	}
}

// A thread that no longer wakes others loses its account, and may get another one a moment later. The
// end of the first account leaves the waits of the second.
func TestEnrolledAgain(t *testing.T) {
	const ms = int64(1e6)
	l := New(0)
	wait := func(tid uint32, from, to int64, state events.WaitState, on events.Reason) events.Wait {
		return events.Wait{PID: 7, TID: tid, Start: base + from*ms, Duration: (to - from) * ms, State: state, Reason: on, Hop: 1}
	}
	l.Batch([]events.Wait{wait(2, 0, 5, events.WaitBlocked, events.ReasonDisk), wait(2, 10, 10, events.WaitRunnable, 0), wait(2, 12, 18, events.WaitBlocked, events.ReasonDisk)}, nil)
	l.Tick([]tick.Thread{
		{PID: 7, TID: 2, Enrolled: true, Ended: true, Since: base, Until: base + 6*ms},
		{PID: 7, TID: 2, Enrolled: true, Since: base + 10*ms, Until: base + 20*ms},
	}, nil)
	w := wait(1, 0, 20, events.WaitBlocked, events.ReasonLock)
	w.Who = events.Thread{PID: 7, TID: 2}
	got, _ := l.behind(&thread{pid: 7, tid: 1}, &w)
	if want := (tick.WakerShare{Times: tick.Times{OnCPU: uint64(4 * ms), Blocked: uint64(6 * ms)}, Reason: events.ReasonDisk}); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
