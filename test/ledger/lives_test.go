//go:build measure

package ledger

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A call that has not returned can be read, with what it waits for.
func TestOpenCall(t *testing.T) {
	need(t)
	o := (&workload{scenario: "hold", calls: 1}).start(t, newWitness(t))
	child := o.child
	s := watch(t, tracing{}, o.pid)
	child.Say("go")
	child.Line("inside")
	var got tick.Thread
	testkit.Eventually(t, "the call to be seen blocked", func() bool {
		th, ok := s.thread(o.pid)
		got = th
		return ok && len(th.Open) == 1 && th.Now.State == events.WaitBlocked
	})
	if n := got.Now; n.Reason != events.ReasonPipe || n.Syscall.String() != "read" || n.File != events.FilePipe || n.Arg != 0 || int(n.CPU) != o.cpu {
		t.Errorf("it does %+v, want a read from a pipe", n)
	}
	if c := got.Open[0]; c.Op.Row().Name != "cudaStreamSynchronize" || c.Start < got.Since || c.Start > got.Now.Since {
		t.Errorf("open is %+v in a thread known since %d that does something since %d", c, got.Since, got.Now.Since)
	}
	from := got.InCalls.Blocked
	testkit.Eventually(t, "the time in it to go on", func() bool {
		th, _ := s.thread(o.pid)
		return th.InCalls.Blocked > from && th.InCalls.Total() > 0 && th.Until > got.Until
	})
	child.Say("enough")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
	th, _ := s.thread(o.pid)
	if !th.Ended || len(th.Open) != 0 || len(s.calls) != 1 {
		t.Errorf("at the end: %+v, %d calls", th, len(s.calls))
	}
}

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

// attach puts the probes on a library.
func attach(t testing.TB, tr *probes.Tracer, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	a, err := tr.Attach(probes.Object{Path: path, Name: path, File: f, Lib: events.LibCudart})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A process that is killed while its threads wait leaves nothing behind.
func TestKilledInAWait(t *testing.T) {
	need(t)
	tr, err := probes.Open(probes.Options{Rows: rows(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	attach(t, tr, filepath.Join(scratch, "libcudart.so.12"))
	known := func() (n int) {
		if err := tr.Threads(func(uint32, *probes.ThreadState, uint64) { n++ }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, scenario := range []string{"hold", "futex", "sleepy-waker"} {
		t.Run(scenario, func(t *testing.T) {
			child := testkit.Start(t, exec.Command(filepath.Join(scratch, "truth"), scenario, "calls=1000000", "us=1000"))
			child.Line("ready")
			if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
				t.Fatal(err)
			}
			child.Say("go")
			want := 2 // the waker too
			if scenario == "hold" {
				want = 1
			}
			testkit.Eventually(t, "the threads to be known", func() bool { return known() == want })
			child.Signal(syscall.SIGKILL)
			_ = child.Wait()
			testkit.Eventually(t, "the threads to be forgotten", func() bool { return known() == 0 })
		})
	}
}
