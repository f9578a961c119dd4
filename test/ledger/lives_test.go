package ledger

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A call that has not returned shows what it waits for.
func TestOpenCall(t *testing.T) {
	r := (&workload{scenario: "hold", count: 1}).start(t, build(t), tracing{})
	seen, wait := watch(t, tracing{}, r.pid)
	r.child.Send("go")
	r.child.Line("inside")
	var th tick.Thread
	testkit.Eventually(t, "the call to be seen blocked", func() (ok bool) {
		th, ok = seen.thread(r.pid)
		return ok && len(th.Open) == 1 && th.Now.State == events.WaitBlocked
	})
	if n := th.Now; n.Reason != events.ReasonPipe || n.Syscall.String() != "read" || n.File != events.FilePipe || n.Arg != 0 || int(n.CPU) != r.cpu {
		t.Errorf("the thread does %+v, want a read from a pipe", n)
	}
	if c := th.Open[0]; c.Op.Row().Name != "cudaStreamSynchronize" || c.Start < th.Since || c.Start > th.Now.Since {
		t.Errorf("open is %+v in %+v", c, th)
	}
	testkit.Eventually(t, "the blocked time to grow", func() bool {
		later, _ := seen.thread(r.pid)
		return later.Until > th.Until && later.InCalls.Blocked > th.InCalls.Blocked && later.InCalls.Total() >= later.InCalls.Blocked
	})
	r.child.Send("enough")
	if err := r.child.Wait(); err != nil {
		t.Fatal(err)
	}
	wait()
	if th, _ := seen.thread(r.pid); !th.Ended || len(th.Open) != 0 || len(seen.calls) != 1 {
		t.Errorf("at the end: %+v, %d calls", th, len(seen.calls))
	}
}

// attach attaches the probes to a library.
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
	dir := build(t)
	tr, err := probes.Open(probes.Options{Rows: rows()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	attach(t, tr, filepath.Join(dir, "libcudart.so.12"))
	known := func() (n int) {
		if err := tr.Threads(func(uint32, *probes.ThreadState, uint64) { n++ }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, scenario := range []string{"hold", "futex", "sleepy-waker"} {
		t.Run(scenario, func(t *testing.T) {
			child := testkit.Start(t, exec.Command(filepath.Join(dir, "truth"), scenario, "calls=1000000", "us=1000"))
			child.Line("ready")
			if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
				t.Fatal(err)
			}
			child.Send("go")
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
