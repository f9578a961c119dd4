//go:build measure

package ledger

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A thread that wakes a traced one again and again has an account of its own,
// and says what it waited for.
func TestEnrolledWaker(t *testing.T) {
	o := judge(t, run(t, tracing{}, workload{scenario: "sleepy-waker", calls: 500, each: 400 * time.Microsecond})[0])
	th, ok := o.thread(o.helper)
	if !ok || !th.Enrolled || th.PID != o.pid || th.InCalls != (tick.Times{}) {
		t.Fatalf("the waker's account: %v %+v", ok, th)
	}
	slept, faults := 0, 0
	for _, w := range o.waitsOf(o.helper) {
		if w.State == events.WaitBlocked {
			// A page of the program may have to be read from the disk, now and then.
			if w.Reason == events.ReasonFault && w.Flags&events.WaitIO != 0 {
				if faults++; faults > 5 {
					t.Fatalf("the waker, which only sleeps, waited for %d pages", faults)
				}
				continue
			}
			slept++
			if w.Reason != events.ReasonSleep || w.Op != 0 || w.Flags&events.WaitByIRQ == 0 || int(w.CPU) != o.other {
				t.Fatalf("the waker, which only sleeps, waited for %+v", w)
			}
		}
	}
	if slept < 400 {
		t.Errorf("%d sleeps of the waker are recorded, want nearly 500", slept)
	}
	if least := uint64(slept) * 400_000; th.Between.Blocked < least {
		t.Errorf("the waker was blocked for %v, want at least %v", time.Duration(th.Between.Blocked), time.Duration(least))
	}
}

// The accounts of threads add up, and agree with the calls.
func TestAccounts(t *testing.T) {
	// Raw: what the agent subtracts for its probes is in no account.
	for _, o := range run(t, tracing{raw: true},
		workload{name: "nested", scenario: "nested", calls: 200, each: ms}, workload{name: "gap", scenario: "gap", calls: 200, each: ms}) {
		t.Run(o.workload.name, func(t *testing.T) {
			o := judge(t, o)
			th, ok := o.thread(o.pid)
			if !ok || !th.Ended || th.Enrolled || th.PID != o.pid || th.Comm != "truth" {
				t.Fatalf("the thread's last account: %v %+v", ok, th)
			}
			var in, between tick.Times
			calls, _ := o.own()
			for i := range calls {
				c := &calls[i]
				in.Add(&tick.Times{OnCPU: uint64(c.OnCPU), Runnable: uint64(c.Runnable), Throttled: uint64(c.Throttled), Blocked: uint64(c.Blocked)})
				between.Add(&tick.Times{OnCPU: uint64(c.GapOnCPU), Runnable: uint64(c.GapRunnable), Throttled: uint64(c.GapThrottled), Blocked: uint64(c.GapBlocked)})
			}
			// A call that has not seen all switches is split by the scheduler's figures,
			// and says so; the account is as the ledger saw it.
			unseen := slices.ContainsFunc(calls, func(c events.Call) bool { return c.Flags&events.CallUnseen != 0 })
			if th.Sync != th.InCalls || th.InCalls != in && (!unseen || th.InCalls.Total() != in.Total()) {
				t.Errorf("in calls it spent %+v, of which synchronising %+v; the calls sum to %+v", th.InCalls, th.Sync, in)
			}
			if !unseen && (th.Between.Blocked < between.Blocked || th.Between.OnCPU < between.OnCPU) {
				t.Errorf("between calls it spent %+v, the gaps sum to %+v", th.Between, between)
			}
			for _, tk := range o.ticks {
				for i := range tk.Threads {
					if th := &tk.Threads[i]; th.InCalls.Total()+th.Between.Total() != uint64(th.Until-th.Since) {
						t.Errorf("an account of %d ns in %d ns: %+v", th.InCalls.Total()+th.Between.Total(), th.Until-th.Since, th)
					}
				}
			}
		})
	}
}
