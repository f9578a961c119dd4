package session_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// worker starts the test program and waits until it is ready.
func worker(t testing.TB, dir, mode, n string, env ...string) *testkit.Child {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "worker"), mode, n)
	cmd.Env = append(append(os.Environ(), "LIBCUDART="+filepath.Join(dir, "libcudart.so.12")), env...)
	return testkit.Start(t, cmd)
}

// build compiles the test program and its runtime.
func build(t testing.TB) (dir string) {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir = t.TempDir()
	for _, args := range [][]string{
		{"-O1", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", dir + "/libcudart.so.12", "testdata/lib.c"},
		{"-O1", "-o", dir + "/worker", "testdata/worker.c", "-ldl"},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	return dir
}

// collector is a sink that keeps what tests check.
type collector struct {
	mu        sync.Mutex
	records   uint64 // measured calls, by weight
	procs     []tick.ProcEvent
	functions []events.Function
	host      tick.HostSums
	faults    []tick.Xid
	last      *tick.Tick
	closed    bool
}

func (c *collector) Batch(b *tick.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range b.Calls {
		c.records += uint64(b.Calls[i].Weight)
	}
	c.procs = append(c.procs, b.Procs...)
	c.functions = append(c.functions, b.Functions...)
	return nil
}

func (c *collector) Tick(t *tick.Tick) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.faults = t, append(c.faults, t.Xids...)
	c.host.Add(t.HostSums)
	return nil
}

func (c *collector) Close() error {
	c.closed = true
	return nil
}

// sum adds up the counts of all processes.
func (c *collector) sum() (s tick.Counts) {
	for _, o := range c.last.Ops {
		s.Calls += o.Sum.Calls
		s.Done += o.Sum.Done
		s.Errors += o.Sum.Errors
		s.Abandoned += o.Sum.Abandoned
	}
	return s
}

func (c *collector) saw() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.records)
}

// running is a running session.
type running struct {
	*collector
	live   *session.Live
	cancel context.CancelFunc
	done   chan error
}

// begin runs a live session until the test ends it or the processes end.
func begin(t testing.TB, o session.LiveOptions) *running {
	t.Helper()
	return beginWith(t, o, session.Config{})
}

func beginWith(t testing.TB, o session.LiveOptions, c session.Config) *running {
	t.Helper()
	if o.Probes.Rows == nil {
		o.Probes.Rows = testkit.OpRows("cudaStreamSynchronize") // one row: attaching is quick even with one link per symbol
	}
	live, err := session.OpenLive(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &running{collector: &collector{}, live: live, cancel: cancel, done: make(chan error, 1)}
	c.Source, c.Sinks = live, append(c.Sinks, r.collector)
	go func() { r.done <- session.Run(ctx, c) }()
	t.Cleanup(cancel)
	return r
}

// end waits for the end of the session.
func (r *running) end(t testing.TB) {
	t.Helper()
	if err := receive(t, "the end of the session", r.done); err != nil {
		t.Fatal(err)
	}
	if r.last == nil || !r.last.Final || !r.closed {
		t.Fatal("the session ended without a final tick, or left its sink open")
	}
}

// exact checks that every call was counted and has its record.
func (r *running) exact(t testing.TB, calls uint64) {
	t.Helper()
	if s := r.sum(); s.Calls != calls || s.Done != calls || s.Abandoned != 0 {
		t.Errorf("counted %d calls, %d returns, %d abandoned, want %d and %d", s.Calls, s.Done, s.Abandoned, calls, calls)
	}
	if r.records != calls {
		t.Errorf("saw %d records, want %d", r.records, calls)
	}
	noDrops(t, r.last)
}

func pids(c *testkit.Child) proc.Selector { return proc.Selector{PIDs: []uint32{uint32(c.PID())}} }

var modes = []probes.Mode{probes.ModeSession, probes.ModeMulti, probes.ModePerf}

func TestLive(t *testing.T) {
	dir := build(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			testkit.LeakCheck(t)
			child := worker(t, dir, "errors", "5000")
			child.Line("ready")
			r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Mode: mode}})
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			r.exact(t, 5000)
			if s := r.sum(); s.Errors != 5000 {
				t.Errorf("%d errors, want 5000", s.Errors)
			}
			o := r.last.Ops[0]
			if o.Dur.Count() != 5000 || o.Hist.Count() != 5000 || o.Thinned {
				t.Errorf("sketch of %d, histogram of %d, thinned %v; want 5000 each", o.Dur.Count(), o.Hist.Count(), o.Thinned)
			}
			if o.Sum.OnCPU+o.Sum.Runnable+o.Sum.Blocked()+o.Sum.PartialNS != o.Sum.Total {
				t.Errorf("parts of %+v do not add up", o.Sum)
			}
			if p := r.last.Processes[0]; p.Comm != "worker" || p.Ended.IsZero() || p.Attached.IsZero() {
				t.Errorf("process %+v", p)
			}
			if len(r.last.Libraries) != 1 || r.last.Libraries[0].Probes != 1 {
				t.Errorf("libraries %+v", r.last.Libraries)
			}
		})
	}
}

// A library that is loaded later is found without a search.
func TestLateLibrary(t *testing.T) {
	t.Parallel()
	dir := build(t)
	child := worker(t, dir, "late", "1000")
	child.Line("ready")
	attached := make(chan session.Notice, 8)
	r := begin(t, session.LiveOptions{Select: pids(child), Notify: func(n session.Notice) {
		if n.Kind == session.NoticeAttached {
			attached <- n
		}
	}})
	child.Send("load")
	child.Line("loaded")
	n := receive(t, "the library to be attached to", attached)
	if n.PID != uint32(child.PID()) || n.Probes != 1 {
		t.Errorf("notice %+v", n)
	}
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	r.exact(t, 1000)
}

// Children are traced from their first instruction, through exec, and the session ends with the
// last of them.
func TestForkAndExecStorm(t *testing.T) {
	t.Parallel()
	dir := build(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			child := worker(t, dir, "forks", "100")
			child.Line("ready")
			r := begin(t, session.LiveOptions{Select: pids(child), Probes: probes.Options{Mode: mode}})
			child.Send("go")
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			r.exact(t, 41*100)
			kinds := map[tick.ProcKind]int{}
			for _, e := range r.procs {
				kinds[e.Kind]++
			}
			if kinds[tick.ProcForked] != 40 || kinds[tick.ProcExeced] != 20 || kinds[tick.ProcExited] != 41 {
				t.Errorf("%d forks, %d execs, %d exits, want 40, 20, 41", kinds[tick.ProcForked], kinds[tick.ProcExeced], kinds[tick.ProcExited])
			}
			if len(r.last.Processes) != 41 {
				t.Errorf("%d processes, want 41", len(r.last.Processes))
			}
		})
	}
}

// A job that keeps creating children does not fill the agent's memory.
func TestEndedProcessesAreForgotten(t *testing.T) {
	t.Parallel()
	dir := build(t)
	child := worker(t, dir, "many", "3")
	child.Line("ready")
	r := beginWith(t, session.LiveOptions{Select: pids(child)}, session.Config{Interval: 50 * time.Millisecond})
	child.Send("go")
	child.Line("done")
	testkit.Eventually(t, "the oldest processes to be forgotten", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.last != nil && len(r.last.Processes) == 1+512 && r.records == 600*3
	})
	child.Send("end")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if s := r.sum(); s.Calls < 512*3 || s.Calls > 600*3 {
		t.Errorf("the last tick has %d calls, want those of 512 processes", s.Calls)
	}
}

// With Alone a child is not traced.
func TestAlone(t *testing.T) {
	t.Parallel()
	dir := build(t)
	child := worker(t, dir, "forks", "100")
	child.Line("ready")
	sel := pids(child)
	sel.Alone = true
	r := begin(t, session.LiveOptions{Select: sel, Alone: true})
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	r.exact(t, 100)
}

// A program that ingero starts is traced from its first call, made while its library is still being
// loaded.
func TestGateSeesTheFirstCall(t *testing.T) {
	t.Parallel()
	dir := build(t)
	cmd := exec.Command("sh", "-c", `echo ready; read x; exec "$0" now 10`, filepath.Join(dir, "worker"))
	cmd.Env = append(os.Environ(), "CALL_AS_LOADED=1", "LIBCUDART="+filepath.Join(dir, "libcudart.so.12"))
	child := testkit.Start(t, cmd)
	child.Line("ready")
	pid := uint32(child.PID())
	r := begin(t, session.LiveOptions{Select: pids(child), Gated: pid})
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	r.exact(t, 11)
	if p := r.last.Processes[0]; p.Mapped.IsZero() || !p.Mapped.Equal(p.Attached) {
		t.Errorf("mapped at %v, attached at %v: nothing was missed in between", p.Mapped, p.Attached)
	}
}

// The programs that it starts in turn are traced too, with their own library.
func TestGateHoldsChildren(t *testing.T) {
	t.Parallel()
	dir := build(t)
	other := filepath.Join(t.TempDir(), "libcudart.so.12")
	code, err := os.ReadFile(filepath.Join(dir, "libcudart.so.12"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteProgram(t, other, code)
	child := worker(t, dir, "forks", "100", "LIBCUDART_EXEC="+other)
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child), Gated: uint32(child.PID())})
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	r.exact(t, 41*100)
	if len(r.last.Libraries) != 2 {
		t.Errorf("libraries %+v, want both", r.last.Libraries)
	}
}

// Repeated starts and stops leave nothing behind.
func TestCyclesLeaveNothing(t *testing.T) {
	dir := build(t)
	child := worker(t, dir, "stay", "1000")
	child.Line("ready")
	child.Send("go")
	cycle := func() {
		r := begin(t, session.LiveOptions{Select: pids(child)})
		testkit.Eventually(t, "a first record", func() bool { return r.saw() > 0 })
		r.cancel()
		r.end(t)
	}
	cycle() // one-time allocations are no leak
	testkit.LeakCheck(t)
	for range 5 { // the check is exact, so it sees every leak
		cycle()
	}
	child.Signal(syscall.SIGKILL)
}

// Programs at their gates are resumed, even if the session ends as they get there.
func TestGateAtTheEnd(t *testing.T) {
	t.Parallel()
	dir := build(t)
	for range 3 {
		cmd := exec.Command("sh", "-c", `echo ready; read x; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "$0" now 1 & done; wait`, filepath.Join(dir, "worker"))
		cmd.Env = append(os.Environ(), "LIBCUDART="+filepath.Join(dir, "libcudart.so.12"))
		child := testkit.Start(t, cmd)
		child.Line("ready")
		live, err := session.OpenLive(t.Context(), session.LiveOptions{Select: pids(child), Gated: uint32(child.PID()), Raw: true, Probes: probes.Options{Rows: testkit.OpRows("cudaStreamSynchronize")}})
		if err != nil {
			t.Fatal(err)
		}
		child.Send("go")
		if err := live.Close(); err != nil {
			t.Error(err)
		}
		if err := child.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
