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
