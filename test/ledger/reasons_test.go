//go:build measure

package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// wakers say who ends a wait.
const (
	anyone  = iota // a device; its interrupt may be served by a thread
	aThread        // the helper
	noOne          // a timer
)

// wantWait is what a wait must say of itself.
type wantWait struct {
	reasons  []events.Reason
	syscalls []string // "": none
	file     events.FileKind
	io       bool
	waker    int
}

// timerWait is a sleep.
var timerWait = wantWait{[]events.Reason{events.ReasonSleep}, []string{"clock_nanosleep"}, events.FileNone, false, noOne}

const third = 300 * time.Microsecond

// blocking are the ways to wait, and what each wait must say of itself. The hogs
// run while a thread is woken, and wake nobody.
var blocking = []struct {
	workload
	want wantWait
}{
	{workload{name: "sleep", scenario: "sleep", calls: 1000, each: third}, timerWait},
	{workload{name: "sleep beside a hog", scenario: "sleep", calls: 500, each: third, hogs: []string{"spin CPU"}}, timerWait},
	{workload{name: "futex", scenario: "futex", calls: 1000, each: third},
		wantWait{[]events.Reason{events.ReasonLock}, []string{"futex"}, events.FileNone, false, aThread}},
	{workload{name: "futex beside a hog", scenario: "futex", calls: 500, each: third, hogs: []string{"spin CPU"}},
		wantWait{[]events.Reason{events.ReasonLock}, []string{"futex"}, events.FileNone, false, aThread}},
	{workload{name: "pipe", scenario: "pipe", calls: 1000, each: third},
		wantWait{[]events.Reason{events.ReasonPipe}, []string{"read"}, events.FilePipe, false, aThread}},
	{workload{name: "socket", scenario: "socket", calls: 1000, each: third},
		wantWait{[]events.Reason{events.ReasonSocket}, []string{"read"}, events.FileSocket, false, aThread}},
	{workload{name: "poll", scenario: "poll", calls: 1000, each: third},
		wantWait{[]events.Reason{events.ReasonPoll}, []string{"poll", "ppoll"}, events.FileNone, false, aThread}},
	{workload{name: "epoll", scenario: "epoll", calls: 1000, each: third},
		wantWait{[]events.Reason{events.ReasonPoll}, []string{"epoll_wait", "epoll_pwait"}, events.FileNone, false, aThread}},
	{workload{name: "stop", scenario: "stop", calls: 1000, each: third},
		wantWait{[]events.Reason{events.ReasonStopped}, nil, events.FileNone, false, aThread}},
	// These take what the disk takes, which is too short for a record at times.
	{workload{name: "disk", scenario: "disk", calls: 1500, onDisk: true},
		wantWait{[]events.Reason{events.ReasonDisk}, []string{"pread64"}, events.FileRegular, true, anyone}},
	{workload{name: "fault", scenario: "fault", calls: 1500, onDisk: true},
		wantWait{[]events.Reason{events.ReasonFault}, []string{""}, events.FileNone, true, anyone}},
	{workload{name: "fsync", scenario: "fsync", calls: 1500, onDisk: true},
		wantWait{[]events.Reason{events.ReasonFile, events.ReasonDisk}, []string{"fdatasync"}, events.FileRegular, false, anyone}},
}

// A blocked call says what it waited for and who ended that, each of a thousand.
// A wake-up is the waker's, though the CPU that the thread comes to is another,
// and idle; one by a timer is nobody's, least of all that of the thread which the
// timer interrupts.
func TestReasons(t *testing.T) {
	t.Logf("an idle CPU comes %v later than the tolerances have for it", time.Duration(slower()))
	var ws []workload
	for _, tt := range blocking {
		tt.check = func(o *outcome) []string {
			wrong, _ := o.checkReasons(&tt.want)
			return wrong
		}
		ws = append(ws, tt.workload)
	}
	for i, o := range run(t, tracing{}, ws...) {
		t.Run(o.workload.name, func(t *testing.T) {
			o := judge(t, o)
			_, judged := o.checkReasons(&blocking[i].want)
			t.Logf("%d calls were surely blocked; %v", judged, o)
			if least := min(o.workload.calls, 1000) / 2; judged < least {
				testkit.NeedKernel(t, "a disk that one has to wait for", !o.workload.onDisk)
				t.Errorf("only %d calls were surely blocked, want %d", judged, least)
			}
		})
	}
}

// checkReasons says which calls did not say why they were blocked, and how many
// were judged: those that surely were blocked for long enough to have a record.
func (o *outcome) checkReasons(want *wantWait) (wrong []string, judged int) {
	calls, _ := o.own()
	eachCall(calls, o.waitsOf(o.pid), func(i int, in []events.Wait) {
		t := &o.truths[i]
		if t.disturbed() {
			return
		}
		in = slices.DeleteFunc(slices.Clone(in), func(w events.Wait) bool { return w.State != events.WaitBlocked })
		for n := range in {
			if what := want.differs(&in[n], o); what != "" {
				wrong = append(wrong, fmt.Sprintf("call %d: %s: %+v", i, what, in[n]))
			}
		}
		if !surely(t, &calls[i]) {
			return
		}
		judged++
		if len(in) == 0 {
			wrong = append(wrong, fmt.Sprintf("call %d was blocked for %v and does not say why: in truth %+v, by the ledger %+v",
				i, time.Duration(t.wasBlocked()), *t, callParts(&calls[i])))
		}
	})
	return wrong, judged
}

// surely tells that a call was blocked for long enough to have a record. Where
// nobody planned for how long, what the clocks leave may be the hypervisor's, which
// has the device to serve; there the ledger's own sum decides, which is compared
// with the clocks for all calls together.
func surely(t *truth, c *events.Call) bool {
	if t.blocked < 0 {
		return c.Blocked >= int64(recorded)
	}
	return min(t.blocked, t.wall-t.cpu-t.delay) >= int64(recorded)+t.late()
}

// differs says what is wrong with a wait.
func (want *wantWait) differs(w *events.Wait, o *outcome) string {
	byIRQ, who := w.Flags&events.WaitByIRQ != 0, w.Who
	switch {
	case !slices.Contains(want.reasons, w.Reason):
		return fmt.Sprintf("reason %v, want %v", w.Reason, want.reasons)
	case want.syscalls != nil && !slices.Contains(want.syscalls, w.Syscall.String()):
		return fmt.Sprintf("system call %q, want %q", w.Syscall, want.syscalls)
	case want.syscalls != nil && w.File != want.file:
		return fmt.Sprintf("file %q, want %q", w.File, want.file)
	case want.io && w.Flags&events.WaitIO == 0:
		return "no wait for a device"
	case want.waker == aThread && (who.TID != o.helper || byIRQ):
		return fmt.Sprintf("woken by %d, want %d", who.TID, o.helper)
	case want.waker == noOne && (who.TID != 0 || !byIRQ):
		return fmt.Sprintf("woken by %d, want an interrupt", who.TID)
	case w.Op == 0 || w.Op.Row().Name != "cudaStreamSynchronize":
		return fmt.Sprintf("in %v", w.Op)
	case int(w.CPU) != o.cpu:
		return fmt.Sprintf("on CPU %d, want %d", w.CPU, o.cpu)
	}
	return ""
}
