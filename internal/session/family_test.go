package session_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// Children of a child are traced from their first instruction, even if the child ran before the
// trace and uses no CUDA, such as a shell or a launcher.
func TestChildrenOfAChild(t *testing.T) {
	t.Parallel()
	dir := build(t)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `(read x <"$1"; "$0" now 100; echo over) & exec "$0" calls 10`, filepath.Join(dir, "worker"), fifo)
	cmd.Env = append(os.Environ(), "LIBCUDART="+filepath.Join(dir, "libcudart.so.12"))
	child := testkit.Start(t, cmd)
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child)})
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	child.Line("over")
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	r.exact(t, 110)
}

// A relative without CUDA that ran before does not prolong the trace.
func TestBystanderDoesNotKeepATrace(t *testing.T) {
	t.Parallel()
	dir := build(t)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `(read x <"$FIFO") >/dev/null 2>&1 & exec "$WORKER" calls 10`)
	cmd.Env = append(os.Environ(), "LIBCUDART="+filepath.Join(dir, "libcudart.so.12"), "WORKER="+filepath.Join(dir, "worker"), "FIFO="+fifo)
	child := testkit.Start(t, cmd)
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child)})
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	r.exact(t, 10)
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil { // it lives until now
		t.Fatal(err)
	}
}

// A program that its launcher leaves behind before it maps a CUDA library is traced to its end, also
// if another program that the launcher started used CUDA.
func TestLauncherEndsBeforeItsProgram(t *testing.T) {
	for name, helper := range map[string]string{"alone": "", "after a helper": `"$0" calls 0 >/dev/null;`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := build(t)
			fifo := filepath.Join(t.TempDir(), "go")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", "echo ready; read x; "+helper+` (exec >/dev/null 2>&1; exec "$0" calls 100 <"$1") &`, filepath.Join(dir, "worker"), fifo)
			cmd.Env = append(os.Environ(), "LIBCUDART="+filepath.Join(dir, "libcudart.so.12"))
			child := testkit.Start(t, cmd)
			child.Line("ready")
			awaited := make(chan session.Notice, 16)
			r := beginWith(t, session.LiveOptions{Select: pids(child), Notify: func(n session.Notice) {
				if n.Kind == session.NoticeTracing && n.PID != uint32(child.PID()) {
					awaited <- n
				}
			}}, session.Config{Interval: 50 * time.Millisecond})
			child.Send("go")
			if helper != "" {
				receive(t, "the helper to use CUDA", awaited)
				child.Send("go")
			}
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "a tick after the launcher's end", func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.last != nil && slices.ContainsFunc(r.last.Processes, func(p tick.Process) bool {
					return p.PID == uint32(child.PID()) && !p.Ended.IsZero()
				})
			})
			input, err := os.OpenFile(fifo, os.O_WRONLY, 0) // lets the program begin
			if err != nil {
				t.Fatal(err)
			}
			receive(t, "the program to use CUDA", awaited)
			if _, err := input.WriteString("go\n"); err != nil {
				t.Fatal(err)
			}
			r.end(t)
			r.exact(t, 100)
			if err := input.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A process that ended before it was enrolled, and for which its parent has not waited, is not
// traced: nothing would report its end.
func TestEndedBeforeEnrolment(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	})
	pid := uint32(child.Process.Pid)
	testkit.Eventually(t, "the end of the process", func() bool {
		p, err := proc.FS{}.Process(pid)
		return err == nil && p.Zombie
	})
	r := begin(t, session.LiveOptions{Select: proc.Selector{PIDs: []uint32{pid}}})
	r.end(t)
	if len(r.last.Processes) != 0 {
		t.Errorf("processes %+v", r.last.Processes)
	}
}
