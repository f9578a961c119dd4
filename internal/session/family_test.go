package session_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
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

// A relative without CUDA does not prolong the trace: whether it ran before, or the program starts it
// during the trace.
func TestBystanderDoesNotKeepATrace(t *testing.T) {
	for name, script := range map[string]string{
		"before": `(read x <"$FIFO") >/dev/null 2>&1 & exec "$WORKER" calls 10`,
		"during": `exec "$WORKER" daemon 10`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := build(t)
			fifo := filepath.Join(t.TempDir(), "go")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", script)
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
		})
	}
}

// A program that its launcher leaves behind before it maps a CUDA library is traced to its end.
func TestLauncherEndsBeforeItsProgram(t *testing.T) {
	t.Parallel()
	dir := build(t)
	fifo := filepath.Join(t.TempDir(), "go")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `echo ready; read x; (exec >/dev/null 2>&1; exec "$0" calls 100 <"$1") &`, filepath.Join(dir, "worker"), fifo)
	cmd.Env = append(os.Environ(), "LIBCUDART="+filepath.Join(dir, "libcudart.so.12"))
	child := testkit.Start(t, cmd)
	child.Line("ready")
	o, seen := attaches(session.LiveOptions{Select: pids(child)})
	r := begin(t, o)
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	input, err := os.OpenFile(fifo, os.O_WRONLY, 0) // lets the program begin
	if err != nil {
		t.Fatal(err)
	}
	next(t, seen)
	if _, err := input.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	r.exact(t, 100)
	if err := input.Close(); err != nil {
		t.Fatal(err)
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
