package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/lock"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// A call that does not return is listed while it is open, and no other; it disappears with its
// process.
func TestStuck(t *testing.T) {
	b := newBench(t)
	if _, stderr, code := b.output("stuck"); code != 1 || !strings.Contains(stderr, "sudo ingero trace") {
		t.Errorf("without a trace: code %d, want 1 and what to type:\n%s", code, stderr)
	}
	well := b.train("--seconds", "100") // makes no call
	spins := exec.Command(b.stack.Program("train"), "--steps", "1", "--launches", "1", "--kernel-us", "90000000", "--hold")
	spins.Env = append(os.Environ(), "INGERO_SIM_SYNC=spin")
	hangs := testkit.Start(t, spins)
	hangs.Line("ready")
	trace := b.ingero("trace", "--pid", pid(well)+","+pid(hangs), "--record=false")
	b.tracing(2)
	hangs.Send("go")
	var out wire.Stuck
	testkit.Eventually(t, "a call that is stuck", func() bool {
		stdout, _, code := b.output("stuck", "--json")
		out = wire.Stuck{}
		return code == 3 && json.Unmarshal([]byte(stdout), &out) == nil
	})
	schema := readSchema(t)
	for document, command := range map[string]string{"ingero stuck --json": "stuck", "ingero status --json": "status"} {
		text, _, _ := b.output(command, "--json")
		if err := schema.check(document, []byte(text)); err != nil {
			t.Errorf("%s: %v in %s", document, err, text)
		}
	}
	if len(out.Calls) != 1 {
		t.Fatalf("%d calls are stuck, want 1: %+v", len(out.Calls), out.Calls)
	}
	if c := out.Calls[0]; c.PID != uint32(hangs.PID()) || c.Op != "cudaStreamSynchronize" ||
		c.OpenNS < int64(time.Second) || c.StateNS < 0 || c.Comm != "train" {
		t.Errorf("stuck: %+v", c)
	}
	stdout, _, _ := b.output("stuck")
	for _, want := range []string{"1 call has not returned\n", fmt.Sprintf("  train (%d)  cudaStreamSynchronize for ", hangs.PID()), "CPU "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the list lacks %q:\n%s", want, stdout)
		}
	}
	if stdout, _, code := b.output("stuck", "--pid", pid(well)); code != 0 || !strings.Contains(stdout, "No call has been open for 1.00 s") {
		t.Errorf("stuck of the other process: code %d, want 0:\n%s", code, stdout)
	}
	hangs.Signal(syscall.SIGKILL)
	_ = hangs.Wait()
	if stdout, _, code := b.output("stuck"); code != 0 { // at once, whatever state the trace published
		t.Errorf("stuck of a process that was killed: code %d, want 0:\n%s", code, stdout)
	}
	testkit.Eventually(t, "the trace to say so", func() bool { return len(b.tracing(1).Open) == 0 })
	trace.Signal(syscall.SIGINT)
	_ = trace.Wait()
}

// The published open calls are limited in number and have a minimum age.
func TestOpenCalls(t *testing.T) {
	now := time.Unix(1000, 0)
	x := &tick.Tick{Time: now, Processes: []tick.Process{{PID: 7, Comm: "train"}}}
	add := func(tid uint32, age time.Duration, change func(*tick.Thread)) {
		th := tick.Thread{PID: 7, TID: tid, Comm: "train", Until: now.UnixNano(), Open: []tick.OpenCall{{Op: 0x0110, Start: now.Add(-age).UnixNano()}}}
		if change != nil {
			change(&th)
		}
		x.Threads = append(x.Threads, th)
	}
	read := events.SyscallOf(unix.SYS_READ)
	add(7, openFor-1, nil)
	add(8, openFor, func(th *tick.Thread) {
		th.Comm = "worker"
		th.Open = append(th.Open, tick.OpenCall{Op: 0x0210, Start: now.UnixNano()})
		th.Now = tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonPipe, Syscall: read, Arg: 5, File: events.FilePipe, Since: now.Add(-time.Second).UnixNano()}
	})
	add(9, time.Hour, func(th *tick.Thread) { th.Ended = true })
	add(10, time.Minute, func(th *tick.Thread) {
		th.Now = tick.ThreadState{State: events.WaitBlocked, Reason: events.ReasonLock, Syscall: events.SyscallOf(unix.SYS_FUTEX), Arg: 0x7f0000000000}
	})
	calls, more := openCalls(x)
	if len(calls) != 2 || more != 0 || calls[0].TID != 10 || calls[1].TID != 8 {
		t.Fatalf("%d calls and %d more: %+v, want those of 10 and 8", len(calls), more, calls)
	}
	if c := calls[1]; c.Comm != "train" || c.Thread != "worker" || c.Inner == "" || c.FD != 5 || c.State != "blocked" || c.Syscall != "read" {
		t.Errorf("call = %+v", c)
	}
	if calls[0].FD != -1 {
		t.Errorf("a futex is on file %d", calls[0].FD)
	}
	for tid := range uint32(500) {
		add(100+tid, time.Minute, nil)
	}
	calls, more = openCalls(x)
	if text, err := json.Marshal(calls); len(calls) != lock.MaxOpen || more != 502-lock.MaxOpen || err != nil || len(text) > 64<<10 {
		t.Errorf("%d calls and %d more, in %d bytes", len(calls), more, len(text))
	}
}

// Each state has its text.
func TestStuckWords(t *testing.T) {
	call := func(change func(c *wire.StuckCall)) wire.StuckCall {
		c := wire.StuckCall{PendingCall: wire.PendingCall{PID: 7, TID: 7, Comm: "train", Op: "cudaMalloc", FD: -1, CPU: 3}, OpenNS: 41e9, StateNS: 2e9}
		change(&c)
		return c
	}
	for want, c := range map[string]wire.StuckCall{
		"it runs on CPU 3 for 2.00 s": call(func(c *wire.StuckCall) { c.State = "on-cpu" }),
		"thread 8 (worker) has been waiting for CPU 3 for 2.00 s, which hog (9) uses": call(func(c *wire.StuckCall) {
			c.TID, c.Thread, c.State, c.OnCPU = 8, "worker", "runnable", &wire.CPUHolder{PID: 9, TID: 9, Comm: "hog"}
		}),
		"it is throttled by the CPU quota of its cgroup for 2.00 s": call(func(c *wire.StuckCall) { c.State = "throttled" }),
		"it waits: page-fault for 2.00 s":                           call(func(c *wire.StuckCall) { c.State, c.Reason = "blocked", "page-fault" }),
		"it is in futex for 2.00 s, waiting for lock":               call(func(c *wire.StuckCall) { c.State, c.Reason, c.Syscall = "blocked", "lock", "futex" }),
		"it is in read(/mnt/nfs/shard) for 2.00 s, waiting for disk": call(func(c *wire.StuckCall) {
			c.State, c.Reason, c.Syscall, c.Path = "blocked", "disk", "read", "/mnt/nfs/shard"
		}),
		"it is in read(file descriptor 5, a pipe) for 2.00 s, waiting for pipe": call(func(c *wire.StuckCall) {
			c.State, c.Reason, c.Syscall, c.FD, c.File = "blocked", "pipe", "read", 5, "pipe"
		}),
	} {
		if got := threadText(&c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	c := call(func(c *wire.StuckCall) {
		c.State, c.Comm, c.Path, c.Syscall = "blocked", "\x1b[2Jx", "/a\nb\x07", "read"
	})
	if text := stuckText(&wire.Stuck{Calls: []wire.StuckCall{c}, Problems: []string{"\x1b"}}); strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("control characters get through: %q", text)
	}
}

// A missing rank is listed before the calls that wait for it.
func TestStuckRanks(t *testing.T) {
	now := time.Unix(1000, 0)
	state := &wire.TraceState{Updated: now, RollCalls: []wire.PendingCollective{{
		Collective: wire.Collective{Ranks: 4, Seq: 48112, Op: "ncclAllReduce", Since: now.Add(-41 * time.Second), Entered: []wire.EnteredRank{{Rank: 0, PID: 1}},
			Text: "ranks 1 and 3 of 4 have not entered ncclAllReduce #48112, which rank 0 entered 41.0 s ago"},
		Missing: []wire.PendingRank{
			{Rank: 1, Lives: true, At: "loader.py:57", PendingCall: wire.PendingCall{PID: 2, TID: 2, Comm: "python3", FD: 5, File: "file",
				State: "blocked", Reason: "disk", Syscall: "read", StateSince: now.Add(-42 * time.Second)}},
			{Rank: 3, Instead: "was killed by SIGKILL from kubelet (711) 40.0 s ago", PendingCall: wire.PendingCall{PID: 4, Comm: "python3", FD: -1}},
		}}}}
	s := stuckOf(state, now, time.Second, nil)
	if len(s.RollCalls) != 1 || s.RollCalls[0].WaitNS != int64(41*time.Second) {
		t.Fatalf("%+v", s)
	}
	want := `ranks 1 and 3 of 4 have not entered ncclAllReduce #48112, which rank 0 entered
  41.0 s ago
  rank 1 python3 (2) between calls: it is in read(file descriptor 5, a file)
      for 42.0 s, waiting for disk; its last collective was made at loader.py:57
  rank 3 python3 (4) was killed by SIGKILL from kubelet (711) 40.0 s ago
No call has been open for 1.00 s or more.
`
	if got := stuckText(s); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for pid, found := range map[uint]bool{1: true, 4: true, 9: false} {
		if s := stuckOf(state, now, time.Second, []uint{pid}); len(s.RollCalls) > 0 != found {
			t.Errorf("of process %d: %d roll calls", pid, len(s.RollCalls))
		}
	}
}

// Stuck calls are filtered by duration and process, and a stale state is reported.
func TestStuckOf(t *testing.T) {
	now := time.Unix(1000, 0)
	state := &wire.TraceState{Updated: now, MoreOpen: 3, Open: []wire.PendingCall{
		{PID: 1, Since: now.Add(-time.Minute)}, {PID: 2, Since: now.Add(-time.Second)}, {PID: 1, Since: now.Add(-time.Second + 1)}}}
	if s := stuckOf(state, now, time.Second, nil); len(s.Calls) != 2 || s.More != 3 || len(s.Problems) != 0 {
		t.Errorf("stuck = %+v", s)
	}
	if s := stuckOf(state, now, time.Second, []uint{2}); len(s.Calls) != 1 || s.Calls[0].OpenNS != int64(time.Second) {
		t.Errorf("stuck of 2 = %+v", s)
	}
	if s := stuckOf(&wire.TraceState{Updated: now, Unranked: 2}, now, time.Second, nil); len(s.Problems) != 1 || !strings.Contains(stuckText(s), "Note: 2 processes created NCCL communicators") {
		t.Errorf("of ranks that are not known: %s", stuckText(s))
	}
	if s := stuckOf(state, now.Add(time.Minute), time.Second, nil); len(s.Problems) != 1 {
		t.Errorf("of a silent trace: %+v", s.Problems)
	}
}

// A file is named only if the descriptor still refers to one of that kind.
func TestFileOf(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "shard"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	of := func(change func(c *wire.StuckCall)) string {
		c := wire.StuckCall{PendingCall: wire.PendingCall{PID: uint32(os.Getpid()), FD: int(f.Fd()), File: "file", Dev: unix.Major(st.Dev)<<20 | unix.Minor(st.Dev)}}
		change(&c)
		return fileOf(&c)
	}
	if got := of(func(*wire.StuckCall) {}); got != f.Name() {
		t.Errorf("file = %q, want %q", got, f.Name())
	}
	for name, change := range map[string]func(c *wire.StuckCall){
		"another kind":     func(c *wire.StuckCall) { c.File = "pipe" },
		"another device":   func(c *wire.StuckCall) { c.Dev++ },
		"no descriptor":    func(c *wire.StuckCall) { c.FD = -1 },
		"one that is gone": func(c *wire.StuckCall) { c.FD = 1 << 20 },
		"no such process":  func(c *wire.StuckCall) { c.PID = 1 << 23 },
	} {
		if got := of(change); got != "" {
			t.Errorf("%s: %q, want nothing", name, got)
		}
	}
}

// The thread that has a CPU is found among its runnable threads.
func TestHolderOf(t *testing.T) {
	cpu, err := lastCPU()
	if err != nil {
		t.Fatal(err)
	}
	hog, err := startHog(t.TempDir(), cpu, time.Minute, hog{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hog.Process.Kill(); _ = hog.Wait() })
	testkit.Eventually(t, "the hog to have the CPU", func() bool { // others may have it too
		h := holderOf(uint16(cpu), 0)
		return h != nil && h.PID == uint32(hog.Process.Pid) && h.Comm == hogName
	})
	if threadLives(uint32(hog.Process.Pid), 1<<23) || !threadLives(uint32(hog.Process.Pid), uint32(hog.Process.Pid)) {
		t.Error("which threads live is not known")
	}
	for _, text := range []string{"", "1 (x", "1 (x) R 1", "1 (x) R" + strings.Repeat(" x", 60)} {
		if _, _, ok := stateOf([]byte(text)); ok {
			t.Errorf("a state was read from %q", text)
		}
	}
}
