package causal

import (
	"testing"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A job that waits in a call that sends waits for a reader of its output, whatever the reader does meanwhile.
func TestWaitsForOutput(t *testing.T) {
	worker := events.Thread{PID: 200, TID: 200, Parent: 100, Name: events.NameOf("collector")}
	busy := tick.WakerShare{Times: tick.Times{OnCPU: 9e6}}
	idle := tick.WakerShare{Times: tick.Times{OnCPU: 1e6, Blocked: 8e6}, Reason: events.ReasonSleep, Call: callNamed(t, "clock_nanosleep")}
	for _, tt := range []struct {
		call   string
		reason events.Reason
		share  tick.WakerShare
		what   string
	}{
		{"write", events.ReasonPipe, busy, "was busy while the job waited to write to it"},
		{"write", events.ReasonPipe, idle, "slept while the job waited to write to it"},
		{"sendmsg", events.ReasonSocket, busy, "was busy while the job waited to write to it"},
		{"msgsnd", events.ReasonOther, idle, "slept while the job waited to write to it"},
		{"read", events.ReasonPipe, busy, "prepared input while the job waited"},
		{"read", events.ReasonPipe, idle, "slept while the job waited for its input"},
		{"recvmsg", events.ReasonSocket, busy, "prepared input while the job waited"},
	} {
		s := ledger.Step{PID: 100, TID: 100, Waits: []ledger.Wait{{
			NS: 9 * ms, Count: 1, State: events.WaitBlocked, Reason: tt.reason, Call: callNamed(t, tt.call), Who: worker, Waker: tt.share}}}
		most := parts(nil, &s, &relations{})[0]
		c := newCauses()
		n, ok := c.attribute(&most)
		if !ok || c.list[n].rule().Name != "input-wait" || c.list[n].what != tt.what {
			t.Errorf("%s, %s: %+v of %+v; want %q", tt.call, tt.reason, c.list, most, tt.what)
		}
	}
}

func callNamed(t *testing.T, name string) events.Syscall {
	t.Helper()
	for i := range events.Syscalls {
		if events.Syscalls[i].Name == name {
			return events.Syscall(i)
		}
	}
	t.Fatalf("no system call %s", name)
	return 0
}
