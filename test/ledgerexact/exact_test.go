package ledgerexact

import (
	"os"
	"slices"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Where the time of calls and gaps went lies between bounds of the thread's own clocks,
// and competing processes are charged for what they used by theirs.
func TestParts(t *testing.T) {
	all(t, []workload{
		{name: "sleep", scenario: "sleep", count: 10, us: 30_000, check: blockedAtLeast(30 * time.Millisecond)},
		{name: "on-CPU", scenario: "work", count: 10, us: 10_000, check: onCPUAtLeast(10 * time.Millisecond)},
		{name: "sleep between calls", scenario: "gap", count: 10, us: 20_000, check: gapBlocked},
		{name: "a call inside a call", scenario: "nested", count: 5, us: 20_000, inner: 1, check: nested},
		{name: "a real-time process has the CPU", scenario: "work", count: 10, us: 10_000, hogs: []string{"burst CPU 5000 2000"}, check: charged},
		{name: "woken while a real-time process runs", scenario: "sleep", count: 40, us: 3_000, hogs: []string{"burst CPU 5000 1000"}, check: charged},
		{name: "a CPU quota", scenario: "work", count: 5, us: 4_000, quota: true, check: throttled},
		{name: "moved between CPUs", scenario: "work", count: 20, us: 10_000,
			hogs: []string{"burst CPU 3000 3000", "burst OTHER 3000 3000"}, meddle: "move TID OTHER CPU 3000", check: moved},
	})
}

// blockedAtLeast checks the blocked time of each call against the time for which the
// program slept, less what it spent runnable after it had read its clock.
func blockedAtLeast(d time.Duration) func(*testing.T, *run) {
	return func(t *testing.T, r *run) {
		for i := range r.calls {
			c, w := &r.calls[i], &r.truths[i]
			if c.Flags&events.CallUnseen != 0 {
				continue
			}
			late := w.after.delay - w.before.delay + w.after.cpu - w.before.cpu + r.stolen
			if low := int64(d) - late - r.slack(int64(d), 2); c.Blocked < low {
				t.Errorf("call %d slept %v and was blocked for %v", i, d, time.Duration(c.Blocked))
			}
		}
	}
}

// onCPUAtLeast checks the on-CPU time of each call against what the program used.
func onCPUAtLeast(d time.Duration) func(*testing.T, *run) {
	return func(t *testing.T, r *run) {
		for i := range r.calls {
			c, w := &r.calls[i], &r.truths[i]
			switches := w.after.preempted - w.before.preempted + 1
			if c.Flags&events.CallUnseen == 0 && c.OnCPU < int64(d)-r.slack(0, switches) {
				t.Errorf("call %d used %v of CPU time and was on a CPU for %v", i, d, time.Duration(c.OnCPU))
			}
		}
	}
}

// gapBlocked checks that the sleep before a call is in its gap.
func gapBlocked(t *testing.T, r *run) {
	var blocked, low, wall int64
	for i := 1; i < len(r.calls); i++ {
		a, b := &r.truths[i-1].after, &r.truths[i].before
		wall += b.wall - a.wall
		low += max(b.wall-a.wall-(b.cpu-a.cpu)-(b.delay-a.delay)-a.aside-b.aside, 0)
		blocked += r.calls[i].GapBlocked
	}
	if blocked < low-r.slack(wall, int64(2*len(r.calls))) || low == 0 {
		t.Errorf("blocked for %v in gaps, want at least %v", time.Duration(blocked), time.Duration(low))
	}
}

// nested checks the calls inside others: they name the outer call and the waits name it, too.
func nested(t *testing.T, r *run) {
	outer := r.calls[0].Op
	for i := range r.calls {
		c := &r.calls[i]
		switch inner := i%2 == 1; {
		case inner && (c.Op.Row().Name != "cuStreamSynchronize" || c.Parent != outer):
			t.Errorf("call %d is %v inside %v", i, c.Op, c.Parent)
		case !inner && (c.Op.Row().Name != "cudaStreamSynchronize" || c.End() < r.calls[i+1].End()):
			t.Errorf("call %d is %v and ends %d ns before the call in it", i, c.Op, r.calls[i+1].End()-c.End())
		}
	}
	for _, w := range r.inCalls() {
		if w.Op != outer {
			t.Errorf("a wait in %v: %+v", w.Op, w)
		}
	}
}

// charged checks that a process of higher priority on the thread's CPU is charged for what it
// used, by its own clock, while the thread was runnable.
func charged(t *testing.T, r *run) {
	var used bounds
	var got, nameless, wall, switches int64
	for i := range r.calls {
		c, w := &r.calls[i], &r.truths[i]
		if c.Flags&events.CallUnseen != 0 {
			continue
		}
		d := w.after.hog[0] - w.before.hog[0]
		// What the process used while the thread was not runnable is not charged.
		used.add(max(min(d, w.after.delay-w.before.delay)-w.outside()-max(w.slept, 0), 0), min(d, w.after.delay-w.before.delay))
		wall += w.after.wall - w.before.wall
		switches += w.after.preempted - w.before.preempted + w.after.switches - w.before.switches
	}
	for _, w := range r.inCalls() {
		switch {
		case w.State == events.WaitRunnable && w.Who.TID == r.hogPIDs[0]:
			got += w.Taken
			r.names(t, w)
		case w.State == events.WaitRunnable && w.Flags&events.WaitOthers != 0:
			nameless += w.Taken
		}
	}
	if got == 0 {
		t.Error("the process of higher priority is charged with nothing")
	}
	used.low -= nameless
	used.check(t, "charged with the CPU", got, r.slack(wall, 2*switches))
}

// names checks that a culprit is named with its process and that process's parent.
func (r *run) names(t *testing.T, w events.Wait) {
	t.Helper()
	want := events.Thread{PID: w.Who.TID, TID: w.Who.TID, Parent: uint32(os.Getpid()), Name: events.NameOf("hog"), Cgroup: w.Who.Cgroup}
	if w.Who != want {
		t.Errorf("culprit %+v, want %+v", w.Who, want)
	}
}

// throttled checks that time which a quota took is the quota's.
func throttled(t *testing.T, r *run) {
	var got, records int64
	for i := range r.calls {
		got += r.calls[i].Throttled
	}
	for _, w := range r.inCalls() {
		if w.State == events.WaitThrottled {
			records++
			if w.Who != (events.Thread{}) || w.Taken != 0 {
				t.Errorf("throttled by %+v", w)
			}
		}
	}
	// 20 ms of CPU time take 10 periods, and each period has at most 2 ms with the CPU.
	if got < int64(100*time.Millisecond) || records == 0 {
		t.Errorf("throttled for %v, in %d waits", time.Duration(got), records)
	}
}

// moved checks that each CPU's process is charged for waits for its own CPU.
func moved(t *testing.T, r *run) {
	n := 0
	for _, w := range r.inCalls() {
		for i, cpu := range []int{r.cpu, r.other} {
			if w.State != events.WaitRunnable || w.Who.TID != r.hogPIDs[i] {
				continue
			}
			n++
			r.names(t, w)
			if int(w.CPU) != cpu {
				t.Errorf("the process of CPU %d is charged with a wait for CPU %d", cpu, w.CPU)
			}
		}
	}
	if n == 0 {
		t.Error("no process is charged")
	}
}

// Wakers: who ends a wait.
const (
	byAnyone = iota
	byHelper
	byTimer
)

// wantWait is what a wait must say.
type wantWait struct {
	reasons  []events.Reason
	syscalls []string // "": none; nil: any
	file     events.FileKind
	io       bool
	waker    int
}

// A blocked call says what it waited for and who ended the wait.
func TestReasons(t *testing.T) {
	wait := func(scenario string, want wantWait) workload {
		w := workload{name: scenario, scenario: scenario, count: 12, us: 3000, check: want.check}
		if w.files = want.waker == byAnyone; w.files {
			w.count, w.us = 64, 0
		}
		return w
	}
	one := func(r events.Reason) []events.Reason { return []events.Reason{r} }
	all(t, []workload{
		wait("sleep", wantWait{one(events.ReasonSleep), []string{"clock_nanosleep"}, events.FileNone, false, byTimer}),
		wait("futex", wantWait{one(events.ReasonLock), []string{"futex"}, events.FileNone, false, byHelper}),
		{name: "a waker that sleeps", scenario: "sleepy-waker", count: 12, us: 3000, check: enrolled},
		wait("pipe", wantWait{one(events.ReasonPipe), []string{"read"}, events.FilePipe, false, byHelper}),
		wait("socket", wantWait{one(events.ReasonSocket), []string{"read"}, events.FileSocket, false, byHelper}),
		wait("poll", wantWait{one(events.ReasonPoll), []string{"poll", "ppoll"}, events.FileNone, false, byHelper}),
		wait("epoll", wantWait{one(events.ReasonPoll), []string{"epoll_wait", "epoll_pwait"}, events.FileNone, false, byHelper}),
		wait("stop", wantWait{one(events.ReasonStopped), nil, events.FileNone, false, byHelper}),
		wait("disk", wantWait{one(events.ReasonDisk), []string{"pread64"}, events.FileRegular, true, byAnyone}),
		wait("fault", wantWait{one(events.ReasonFault), []string{""}, events.FileNone, true, byAnyone}),
	})
}

// check is about the waits of a workload. That a page of the program had to be read from the
// disk is no fault of the ledger.
func (want wantWait) check(t *testing.T, r *run) {
	n := 0
	for _, w := range r.inCalls() {
		if w.State != events.WaitBlocked || w.Reason == events.ReasonFault && !slices.Contains(want.reasons, events.ReasonFault) {
			continue
		}
		n++
		byIRQ := w.Flags&events.WaitByIRQ != 0
		if !slices.Contains(want.reasons, w.Reason) || want.syscalls != nil && (!slices.Contains(want.syscalls, w.Syscall.String()) || w.File != want.file) ||
			want.io && w.Flags&events.WaitIO == 0 ||
			want.waker == byHelper && (w.Who.TID != r.helper || byIRQ) || want.waker == byTimer && (w.Who.TID != 0 || !byIRQ) ||
			w.Op.Row().Name != "cudaStreamSynchronize" || int(w.CPU) != r.cpu {
			t.Errorf("helper %d, CPU %d: %+v, want %+v", r.helper, r.cpu, w, want)
		}
	}
	if n == 0 {
		t.Error("no call was blocked")
	}
}

// enrolled checks that a thread which wakes the traced one has an account, and says what it
// waited for itself.
func enrolled(t *testing.T, r *run) {
	th, ok := r.thread(r.helper)
	if !ok || !th.Enrolled || th.PID != r.pid || th.InCalls != (tick.Times{}) {
		t.Fatalf("the waker's account: %t %+v", ok, th)
	}
	n, blocked := 0, int64(0)
	for _, w := range r.waits {
		if w.TID != r.helper || w.State != events.WaitBlocked || w.Reason == events.ReasonFault {
			continue
		}
		n++
		blocked += w.Duration
		if w.Reason != events.ReasonSleep || w.Op != 0 || int(w.CPU) != r.other {
			t.Errorf("the waker, which only sleeps, waited for %+v", w)
		}
	}
	if got := int64(th.Between.Blocked); n == 0 || got < blocked {
		t.Errorf("%d sleeps of the waker sum to %v, and its account has %v", n, time.Duration(blocked), time.Duration(got))
	}
}

// A call that has not returned shows what it waits for.
func TestOpenCall(t *testing.T) {
	r := (&workload{scenario: "hold", count: 1}).start(t, build(t))
	wait := watch(t, r.record, r.pid)
	r.child.Say("go")
	r.child.Line("inside")
	testkit.Eventually(t, "the call to be seen blocked", func() bool {
		th, ok := r.thread(r.pid)
		return ok && len(th.Open) == 1 && th.Now.State == events.WaitBlocked
	})
	th, _ := r.thread(r.pid)
	if n := th.Now; n.Reason != events.ReasonPipe || n.Syscall.String() != "read" || n.File != events.FilePipe || n.Arg != 0 || int(n.CPU) != r.cpu {
		t.Errorf("the thread does %+v, want a read from a pipe", n)
	}
	if c := th.Open[0]; c.Op.Row().Name != "cudaStreamSynchronize" || c.Start < th.Since || c.Start > th.Now.Since {
		t.Errorf("open is %+v in %+v", c, th)
	}
	from := th.InCalls.Blocked
	testkit.Eventually(t, "the blocked time to grow", func() bool {
		th, _ := r.thread(r.pid)
		return th.InCalls.Blocked > from && th.InCalls.Total() >= th.InCalls.Blocked
	})
	r.child.Say("enough")
	if err := r.child.Wait(); err != nil {
		t.Fatal(err)
	}
	wait()
	if th, _ := r.thread(r.pid); !th.Ended || len(th.Open) != 0 || len(r.calls) != 1 {
		t.Errorf("at the end: %+v, %d calls", th, len(r.calls))
	}
}
