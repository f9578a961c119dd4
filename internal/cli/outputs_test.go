package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/testkit"
)

// Under sudo, the program runs as the user who called sudo, with that user's environment, and the
// database belongs to that user.
func TestRunUnderSudo(t *testing.T) {
	b := newBench(t)
	for d := b.dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(b.dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	su := filepath.Join(b.dir, "sudo") // so that the process's name is sudo
	if err := os.Symlink(self, su); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(home, "x.db")
	cmd := exec.Command(su, "/proc/self/exe", "run", "--db", db, "--", "sh", "-c",
		`id -u; id -g; id -G; echo "$PATH $VIRTUAL_ENV $HOME"; env | grep -c ^SUDO_; exec "$TRAIN" --steps 3`)
	cmd.Env = append(b.env, asSudo+"=1", "PATH="+b.dir+"/venv/bin:/usr/bin:/bin", "VIRTUAL_ENV="+b.dir+"/venv",
		"HOME="+home, "TRAIN="+b.stack.Program("train"))
	c := testkit.Start(t, cmd)
	stdout, stderr, code := finish(t, c)
	want := fmt.Sprintf("12345\n12345\n12345\n%s/venv/bin:/usr/bin:/bin %s/venv %s\n0\n{", b.dir, b.dir, home)
	if code != 0 || !strings.HasPrefix(stdout, want) {
		t.Errorf("code %d, output:\n%s\nwant it to start with:\n%s\nstandard error:\n%s", code, stdout, want, stderr)
	}
	if !strings.Contains(stderr, "cudaLaunchKernel") {
		t.Errorf("the report tells of no launches:\n%s", stderr)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(db, &st); err != nil || st.Uid != 12345 {
		t.Errorf("the database belongs to user %d (%v), want 12345", st.Uid, err)
	}
}

// fillDisk records to a disk with room for an empty database and little more, until the trace
// reports that the recording has stopped.
func (b *bench) fillDisk() *testkit.Child {
	b.t.Helper()
	small := filepath.Join(b.dir, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		b.t.Fatal(err)
	}
	testkit.NeedMount(b.t, syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m,mode=755"))
	b.t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	target := b.train("--seconds", "60", "--kernel-us", "1", "--cpu-us", "0")
	target.Send("go")
	c := b.ingero("trace", "--pid", pid(target), "--db", filepath.Join(small, "x.db"))
	c.Line("ingero: recording has stopped: ")
	return c
}

// A full disk ends the recording but not the trace, which reports it at once.
func TestFullDisk(t *testing.T) {
	b := newBench(t)
	c := b.fillDisk()
	at := b.tracing(1).Calls
	testkit.Eventually(t, "the trace to go on", func() bool { return b.tracing(1).Calls > at })
	stdout, _, code := b.output("status")
	if code != 3 || !strings.Contains(stdout, "not recording: the disk is full") {
		t.Errorf("status: code %d, want 3:\n%s", code, stdout)
	}
	c.Signal(syscall.SIGINT)
	_, stderr, code := finish(t, c)
	if code != 1 || !strings.Contains(stderr, "the disk is full") {
		t.Errorf("code %d, want 1 and a word on the disk:\n%s", code, stderr)
	}
}

// --debug logs to standard error what ingero finds and attaches to.
func TestDebug(t *testing.T) {
	b := newBench(t)
	target := b.train("--seconds", "60")
	target.Send("go")
	_, stderr, code := b.output("trace", "--debug", "--duration", "100ms", "--pid", pid(target))
	if code != 0 || !strings.Contains(stderr, "discover") || !strings.Contains(stderr, b.stack.Libcudart) {
		t.Errorf("code %d, standard error:\n%s", code, stderr)
	}
}

// --verbose prints each call.
func TestVerbose(t *testing.T) {
	b := newBench(t)
	target := b.train("--steps", "4", "--launches", "2")
	c := b.ingero("trace", "--verbose", "--record=false", "--pid", pid(target))
	b.tracing(1)
	target.Send("go")
	stdout, _, code := finish(t, c)
	lines := 0
	for line := range strings.Lines(stdout) {
		if strings.Contains(line, ")  cudaLaunchKernel ") && strings.Contains(line, "train") {
			lines++
		}
	}
	if code != 0 || lines != 8 {
		t.Errorf("code %d, %d lines of launches, want 8:\n%s", code, lines, stdout)
	}
}

// In its own PID namespace, where its PIDs differ from the kernel's, ingero reports this and traces
// nothing, even if its /proc shows the host's.
func TestTraceRefusesItsOwnPIDNamespace(t *testing.T) {
	b := newBench(t)
	cmd := exec.Command("/proc/self/exe", "trace", "--record=false", "--duration", "100ms")
	cmd.Env = b.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	_, stderr, code := finish(t, testkit.Start(t, cmd))
	if code != 1 || !strings.Contains(stderr, "hostPID") {
		t.Errorf("code %d, standard error:\n%s", code, stderr)
	}
}
