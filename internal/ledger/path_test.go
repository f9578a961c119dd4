package ledger

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A wait is what the threads did at the roots of the chains behind it, each nanosecond once.
func TestBehind(t *testing.T) {
	const ms = int64(1e6)
	at := func(tid uint32) events.Thread { return events.Thread{PID: 100 + tid, TID: tid} }
	blocked := func(tid uint32, from, to int64, on events.Reason, by uint32) events.Wait {
		w := events.Wait{PID: 100 + tid, TID: tid, Start: base + from*ms, Duration: (to - from) * ms, State: events.WaitBlocked, Reason: on}
		if by != 0 {
			w.Who = at(by)
		}
		return w
	}
	runnable := func(tid uint32, from, to int64, by uint32) events.Wait {
		w := blocked(tid, from, to, 0, by)
		w.State, w.Taken = events.WaitRunnable, w.Duration
		return w
	}
	for _, tt := range []struct {
		name  string
		waits []events.Wait // of the threads behind, in the order of their ends
		want  tick.WakerShare
	}{
		{name: "of the waker nothing is known"},
		{name: "the waker was on a CPU", waits: []events.Wait{blocked(2, -10, 0, events.ReasonSleep, 0)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 10}}},
		{name: "the waker is known since a part of the wait", waits: []events.Wait{blocked(2, 4, 6, events.ReasonSleep, 0)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 4, Blocked: 2}, Reason: events.ReasonSleep}},
		{name: "a feeder thread waits for who makes the input",
			waits: []events.Wait{blocked(3, -9, -1, events.ReasonSleep, 0), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 10}, Root: at(3)}},
		{name: "who makes the input reads a disk for a part of it",
			waits: []events.Wait{blocked(3, -1, 6, events.ReasonDisk, 0), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 4, Blocked: 6}, Reason: events.ReasonDisk, Root: at(3)}},
		{name: "and has no CPU for another part",
			waits: []events.Wait{blocked(3, -1, 2, events.ReasonDisk, 0), runnable(3, 2, 8, 9), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 2, Blocked: 2, Runnable: 6}, Reason: events.ReasonDisk, By: at(9), Root: at(3)}},
		{name: "of who makes the input only the end is known",
			waits: []events.Wait{blocked(3, 6, 7, events.ReasonSleep, 0), blocked(2, -1, 9, events.ReasonLock, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 3, Blocked: 7}, Reason: events.ReasonLock}},
		{name: "a waiter for a disk waits for nobody",
			waits: []events.Wait{blocked(3, -1, 0, events.ReasonSleep, 0), blocked(2, -1, 9, events.ReasonDisk, 3)},
			want:  tick.WakerShare{Times: tick.Times{OnCPU: 1, Blocked: 9}, Reason: events.ReasonDisk}},
		{name: "four hops", waits: []events.Wait{
			blocked(5, -1, 8, events.ReasonSleep, 0), blocked(4, -1, 8, events.ReasonPipe, 5), blocked(3, -1, 8, events.ReasonPipe, 4), blocked(2, -1, 8, events.ReasonPipe, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 2, Blocked: 8}, Reason: events.ReasonSleep, Root: at(5)}},
		{name: "no more than four", waits: []events.Wait{
			blocked(6, -1, 8, events.ReasonSleep, 0), blocked(5, -1, 8, events.ReasonPipe, 6), blocked(4, -1, 8, events.ReasonPipe, 5), blocked(3, -1, 8, events.ReasonPipe, 4), blocked(2, -1, 8, events.ReasonPipe, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 2, Blocked: 8}, Reason: events.ReasonPipe, Root: at(5)}},
		{name: "two that wait for each other", waits: []events.Wait{blocked(3, 0, 5, events.ReasonPipe, 2), blocked(2, 0, 9, events.ReasonPipe, 3)},
			want: tick.WakerShare{Times: tick.Times{OnCPU: 5, Blocked: 5}, Reason: events.ReasonPipe, Root: at(3)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := New(0)
			for _, w := range tt.waits {
				l.wait(&w)
			}
			w := blocked(1, 0, 10, events.ReasonPoll, 2)
			got := l.behind(&thread{pid: 101, tid: 1}, &w)
			for _, d := range []*uint64{&tt.want.OnCPU, &tt.want.Runnable, &tt.want.Throttled, &tt.want.Blocked} {
				*d *= uint64(ms)
			}
			if got != tt.want {
				t.Errorf("%+v\nwant %+v", got, tt.want)
			}
		})
	}
}
