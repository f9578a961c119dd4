package explain

import (
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// waitsOfAllKinds has one wait of each format.
func waitsOfAllKinds() []events.Wait {
	at := start.UnixNano()
	read := syscallNamed("read")
	return []events.Wait{
		{Start: at, Duration: 2 * ms, Taken: 1_500_000, PID: 7, TID: 8, Op: streamSyn, CPU: 3, State: events.WaitRunnable, Who: thread("stress-ng", 8821, 8822)},
		{Start: at, Duration: 2 * ms, Taken: 400_000, PID: 7, TID: 8, CPU: 3, State: events.WaitRunnable, Who: thread("omp", 7, 9), Flags: events.WaitPrevious | events.WaitMoved},
		{Start: at, Duration: 2 * ms, PID: 7, TID: 7, State: events.WaitRunnable, Flags: events.WaitIdle},
		{Start: at, Duration: 2 * ms, Taken: 90_000, PID: 7, TID: 7, State: events.WaitRunnable, Flags: events.WaitOthers},
		{Start: at, Duration: 2 * ms, Taken: 2 * ms, PID: 7, TID: 7, CPU: 3, State: events.WaitRunnable, Reason: events.ReasonHypervisor},
		{Start: at, Duration: 90 * ms, PID: 7, TID: 7, State: events.WaitThrottled},
		{Start: at, Duration: 9 * ms, PID: 7, TID: 7, State: events.WaitBlocked, Reason: events.ReasonDisk, Syscall: read, File: events.FileRegular, Arg: 5, Dev: 254<<20 | 1, Flags: events.WaitIO | events.WaitByIRQ},
		{Start: at, Duration: 9 * ms, PID: 7, TID: 7, State: events.WaitBlocked, Reason: events.ReasonPipe, Syscall: read, File: events.FilePipe, Arg: 5, Who: thread("loader", 12, 12)},
		{Start: at, Duration: 9 * ms, PID: 7, TID: 7, State: events.WaitBlocked, Reason: events.ReasonLock, Syscall: syscallNamed("futex"), Arg: 0x7fff12345678, Who: thread("dispatch", 7, 9)},
		{Start: at, Duration: 9 * ms, PID: 7, TID: 7, State: events.WaitBlocked, Reason: events.ReasonStopped, Who: thread("gdb", 99, 99)},
		{Start: at, Duration: 9 * ms, PID: 7, TID: 7, State: events.WaitBlocked, Reason: events.ReasonOther, Syscall: syscallNamed("sched_yield")},
	}
}

func TestWaits(t *testing.T) {
	var text, lines strings.Builder
	for _, w := range waitsOfAllKinds() {
		b := AppendWaitJSON(nil, &w, "train")
		fits[wire.WaitLine](t, b)
		text.Write(append(b, '\n'))
		lines.Write(append(AppendWaitLine(nil, &w, "train", cet), '\n'))
	}
	for _, e := range []tick.ProcEvent{
		{Time: start.UnixNano(), Kind: tick.ProcForked, PID: 7, TID: 7, Peer: 8, Comm: "sh"},
		{Time: start.Add(time.Second).UnixNano(), Kind: tick.ProcExeced, PID: 8, Comm: `a "quoted" name`},
		{Time: start.Add(2 * time.Second).UnixNano(), Kind: tick.ProcExited, PID: 8},
		{Time: start.Add(3 * time.Second).UnixNano(), Kind: tick.ProcOOM, PID: 9, TID: 9, Comm: "loader"},
		{Time: start.Add(4 * time.Second).UnixNano(), Kind: tick.ProcKilled, PID: 7, TID: 7, Peer: 711, Comm: "kubelet", Signal: 15},
		{Time: start.Add(5 * time.Second).UnixNano(), Kind: tick.ProcKilled, PID: 7, TID: 7, Signal: 9},
	} {
		b := AppendProcJSON(nil, &e)
		fits[wire.ProcessLine](t, b)
		text.Write(append(b, '\n'))
	}
	testkit.Golden(t, "waits.json", text.String())
	testkit.Golden(t, "waits.txt", lines.String())
}

// Each reason and each number of a system call has words.
func TestReasonsHaveWords(t *testing.T) {
	for r := events.ReasonUnknown; r <= events.ReasonHypervisor; r++ {
		if _, ok := reasonWords[r]; !ok {
			t.Errorf("%s has no words", r)
		}
		if blockReason(r, 0, 0) == "" {
			t.Errorf("%s is said with nothing", r)
		}
	}
	if got := blockReason(events.Reason(200), 0, 0); got != "reason(200)" {
		t.Errorf("a reason to come is %q", got)
	}
}

// A wait ended by another thread describes that thread's activity meanwhile.
func TestMeanwhile(t *testing.T) {
	hog := thread("hog", 9, 9)
	for want, w := range map[string]*tick.WakerShare{
		"": nil, ", which ran": {Times: tick.Times{OnCPU: 5, Blocked: 3}},
		", which waited for a CPU used by hog": {Times: tick.Times{Runnable: 5}, By: hog},
		", which was throttled":                {Times: tick.Times{Throttled: 5}},
		", which slept":                        {Times: tick.Times{Blocked: 5}, Reason: events.ReasonSleep},
		", which waited for disk 8:1":          {Times: tick.Times{Blocked: 5}, Reason: events.ReasonDisk, Dev: 8<<20 | 1},
	} {
		if got := meanwhile(w, ""); got != want {
			t.Errorf("meanwhile(%+v) = %q, want %q", w, got, want)
		}
	}
	ran := &tick.WakerShare{Times: tick.Times{OnCPU: 5}, Root: thread("python", 8, 9)}
	if got, want := meanwhile(ran, "dataset.py:57 in decode()"), ", which waited for python 9, which ran at dataset.py:57 in decode()"; got != want {
		t.Errorf("with the place: %q, want %q", got, want)
	}
}

func TestWaitsAllocateNothing(t *testing.T) {
	waits := waitsOfAllKinds()
	b := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { b = AppendWaitJSON(b[:0], &waits[0], "train") }); n > 1 { // the name
		t.Errorf("%v allocations a wait", n)
	}
}
