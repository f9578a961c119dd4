package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Wakers: what ends a wait.
const (
	byAnyone = iota // a device, whose interrupt any thread may serve
	byHelper
	byTimer
)

// wantWait is the expected record of a blocked wait.
type wantWait struct {
	reasons  []events.Reason
	syscalls []string // "": none; nil: any
	file     events.FileKind
	io       bool
	waker    int
}

func one(r events.Reason) []events.Reason { return []events.Reason{r} }

// Waits of the scenarios.
var (
	wantSleep = wantWait{one(events.ReasonSleep), []string{"clock_nanosleep"}, events.FileNone, false, byTimer}
	wantFutex = wantWait{one(events.ReasonLock), []string{"futex"}, events.FileNone, false, byHelper}
)

// blocking are the ways to wait, with the expected waits.
var blocking = []struct {
	scenario string
	onDisk   bool // the call's length depends on the disk, and may be too short for a record
	want     wantWait
}{
	{"sleep", false, wantSleep},
	{"futex", false, wantFutex},
	{"pipe", false, wantWait{one(events.ReasonPipe), []string{"read"}, events.FilePipe, false, byHelper}},
	{"socket", false, wantWait{one(events.ReasonSocket), []string{"read"}, events.FileSocket, false, byHelper}},
	{"tcp", false, wantWait{one(events.ReasonSocket), []string{"read"}, events.FileSocket, false, byHelper}},
	{"tcp of IPv6", false, wantWait{one(events.ReasonSocket), []string{"read"}, events.FileSocket, false, byHelper}},
	{"epoll of tcp", false, wantWait{one(events.ReasonPoll), []string{"epoll_wait", "epoll_pwait"}, events.FileNone, false, byHelper}},
	{"poll", false, wantWait{one(events.ReasonPoll), []string{"poll", "ppoll"}, events.FileNone, false, byHelper}},
	{"epoll", false, wantWait{one(events.ReasonPoll), []string{"epoll_wait", "epoll_pwait"}, events.FileNone, false, byHelper}},
	{"stop", false, wantWait{one(events.ReasonStopped), nil, events.FileNone, false, byHelper}},
	{"disk", true, wantWait{one(events.ReasonDisk), []string{"pread64"}, events.FileRegular, true, byAnyone}},
	{"fault", true, wantWait{one(events.ReasonFault), []string{""}, events.FileNone, true, byAnyone}},
}

// A blocked call has the reason of its wait and its waker, and a waker of a traced thread has an
// account.
func TestReasons(t *testing.T) {
	workloads := []workload{{name: "a waker that sleeps", scenario: "sleepy-waker", count: 12, each: 3 * ms, check: enrolled}}
	for _, b := range blocking {
		w := workload{name: b.scenario, scenario: b.scenario, count: 12, each: 3 * ms, onDisk: b.onDisk, check: b.want.check}
		if b.onDisk {
			w.count, w.each = 64, 0
		}
		workloads = append(workloads, w)
	}
	checkExactly(t, tracing{raw: true}, workloads...)
}

// check checks the waits of a workload. It ignores reads of the program's own pages from the disk.
func (want wantWait) check(t testing.TB, r *run) {
	n := 0
	for _, w := range r.inCalls() {
		if w.State != events.WaitBlocked || w.Reason == events.ReasonFault && !slices.Contains(want.reasons, events.ReasonFault) {
			continue
		}
		n++
		if what := want.differs(&w, r); what != "" {
			t.Errorf("%s: %+v", what, w)
		}
	}
	if n == 0 && !r.onDisk { // a fast disk answers before the thread leaves its CPU
		t.Error("no call was blocked")
	}
}

// differs describes what is wrong with a wait, "" if nothing is.
func (want *wantWait) differs(w *events.Wait, r *run) string {
	byIRQ := w.Flags&events.WaitByIRQ != 0
	switch {
	case !slices.Contains(want.reasons, w.Reason):
		return fmt.Sprintf("reason %v, want %v", w.Reason, want.reasons)
	case want.syscalls != nil && !slices.Contains(want.syscalls, w.Syscall.String()):
		return fmt.Sprintf("system call %q, want %q", w.Syscall, want.syscalls)
	case want.syscalls != nil && w.File != want.file:
		return fmt.Sprintf("file %q, want %q", w.File, want.file)
	case want.io && w.Flags&events.WaitIO == 0:
		return "no wait for a device"
	case want.waker == byHelper && (w.Who.TID != r.helper || byIRQ):
		return fmt.Sprintf("woken by %d, want %d", w.Who.TID, r.helper)
	case want.waker == byTimer && (w.Who.TID != 0 || !byIRQ):
		return fmt.Sprintf("woken by %d, want an interrupt", w.Who.TID)
	case w.Op == 0 || w.Op.Row().Name != "cudaStreamSynchronize":
		return fmt.Sprintf("in %v", w.Op)
	case int(w.CPU) != r.cpu:
		return fmt.Sprintf("on CPU %d, want %d", w.CPU, r.cpu)
	}
	return ""
}

// enrolled checks that the waker of the traced thread has an account, and its own waits have
// reasons.
func enrolled(t testing.TB, r *run) {
	th, ok := r.thread(r.helper)
	if !ok || !th.Enrolled || th.PID != r.pid || th.InCalls != (tick.Times{}) {
		t.Fatalf("the waker's account: %t %+v", ok, th)
	}
	sleeps := r.sleeps()
	var blocked int64
	for _, w := range sleeps {
		blocked += w.Duration
		if w.Reason != events.ReasonSleep || w.Op != 0 || w.Flags&events.WaitByIRQ == 0 || int(w.CPU) != r.other {
			t.Errorf("the waker, which only sleeps, waited for %+v", w)
		}
	}
	if got := int64(th.Between.Blocked); len(sleeps) == 0 || got < blocked {
		t.Errorf("%d sleeps of the waker sum to %v, and its account has %v", len(sleeps), time.Duration(blocked), time.Duration(got))
	}
}

// sleeps returns the waits of the waker, except those for pages of the program.
func (r *run) sleeps() []events.Wait {
	return slices.DeleteFunc(r.waitsOf(r.helper), func(w events.Wait) bool {
		return w.State != events.WaitBlocked || w.Reason == events.ReasonFault
	})
}
