package session_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// opened traces a worker, which keeps running, by a source that only the test polls.
func opened(t *testing.T, mode, n string) (*testkit.Child, *session.Live) {
	t.Helper()
	child := worker(t, build(t), mode, n)
	child.Line("ready")
	live, err := session.OpenLive(t.Context(), session.LiveOptions{Select: pids(child), Probes: probes.Options{Rows: testkit.OpRows("cudaStreamSynchronize")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := live.Close(); err != nil {
			t.Error(err)
		}
	})
	child.Send("go")
	return child, live
}

// If a process made more calls than fit into a batch and ended before any was read, its exit
// follows the last of them.
func TestExitComesAfterCalls(t *testing.T) {
	t.Parallel()
	const calls = 20000
	child, live := opened(t, "sync", "20000")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	read, batches, exited := 0, 0, 0
	var err error
	for err == nil {
		var b tick.Batch
		_, err = live.Poll(&b)
		if len(b.Calls) > 0 && exited > 0 {
			t.Errorf("%d calls in a batch after that of the exit", len(b.Calls))
		}
		for _, e := range b.Procs {
			if e.Kind == tick.ProcExited && e.PID == uint32(child.PID()) {
				exited++
			}
		}
		read += len(b.Calls)
		batches++
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if read != calls || exited != 1 || batches < 3 {
		t.Errorf("%d calls and %d exits in %d batches, want %d and 1 in 3 or more", read, exited, batches, calls)
	}
}

// Threads that end at once on several CPUs make one exit of their process, after the signal that
// killed them.
func TestExitIsToldOnce(t *testing.T) {
	t.Parallel()
	const children = 300
	child, live := opened(t, "killed", "0")
	lives := map[uint32]string{}
	for exits := 0; exits < children; {
		var b tick.Batch
		if _, err := live.Poll(&b); err != nil {
			t.Fatalf("after %d exits: %v", exits, err)
		}
		for _, e := range b.Procs {
			switch e.Kind {
			case tick.ProcKilled:
				lives[e.PID] += fmt.Sprintf("%v by %t ", syscall.Signal(e.Signal), e.Peer == e.PID)
			case tick.ProcExited:
				lives[e.PID] += "exited "
				exits++
			}
		}
	}
	for pid, was := range lives {
		if was != "killed by true exited " {
			t.Errorf("process %d: %s", pid, was)
		}
	}
	if len(lives) != children {
		t.Errorf("%d processes ended, want %d", len(lives), children)
	}
	child.Send("end")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A thread that ends wakes its joiner after the agent has forgotten it. It gets no account then,
// since nothing would end it: a process has 64.
func TestEndedThreadsAreForgotten(t *testing.T) {
	t.Parallel()
	child, live := opened(t, "joins", "1")
	child.Line("done")
	// A joiner is woken before the thread is gone.
	testkit.Eventually(t, "threads to be gone", func() bool {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", child.PID()))
		return err == nil && len(threads) == 1
	})
	to := tick.Tick{Time: time.Now()}
	if err := live.Totals(&to); err != nil {
		t.Fatal(err)
	}
	known := false
	for _, x := range to.Threads {
		if x.PID != uint32(child.PID()) || x.Ended {
			continue
		}
		known = known || x.TID == x.PID
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", x.PID, x.TID)); err != nil {
			t.Errorf("thread %d is reported as if it lived: %v", x.TID, err)
		}
	}
	if !known {
		t.Error("nothing is reported of its main thread")
	}
	noDrops(t, &to)
	child.Send("end")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}
