package probes

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/decode"
	"ingero/internal/testkit"
)

// A process that maps a CUDA library stops until it is resumed. After StopLives none stops, even if
// a child that is about to exec still has copies of the links.
func TestGates(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	lib := filepath.Join(t.TempDir(), "libcuda.so.1")
	if out, err := exec.Command("gcc", "-shared", "-o", lib, "-x", "c", os.DevNull).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	tr, err := Open(Options{Gate: true, NoLedger: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	child := testkit.Start(t, exec.Command("sh", "-c", `for i in 1 2; do echo ready; read x; LD_PRELOAD="$0" sh -c :; done`, lib))
	child.Line("ready")
	if err := tr.target(uint32(child.PID()), Target{Follow: true, Gate: true}); err != nil {
		t.Fatal(err)
	}
	child.Send("go")
	var stopped int
	testkit.Eventually(t, "a process at its gate", func() bool {
		tr.DrainLives(func(record []byte) {
			if e, err := decode.Proc(record, decode.Clock{}); err == nil && e.Kind == decode.Gate {
				stopped = int(e.PID)
			}
		})
		return stopped > 0
	})
	if err := syscall.Kill(stopped, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	child.Line("ready")

	for _, l := range tr.base {
		fd, err := unix.FcntlInt(uintptr(l.(interface{ FD() int }).FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
	if err := tr.StopLives(); err != nil {
		t.Fatal(err)
	}
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}
