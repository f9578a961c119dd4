package session

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/decode"
	"ingero/internal/gpu"
	"ingero/internal/proc"
	"ingero/internal/tick"
)

// processWith makes a process in a proc file system, with open files.
func processWith(t *testing.T, root string, pid, parent, started int, files ...string) {
	t.Helper()
	dir := filepath.Join(root, "proc", fmt.Sprint(pid))
	if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		if err := os.Symlink(file, filepath.Join(dir, "fd", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"status": fmt.Sprintf("Tgid:\t%d\nPPid:\t%d\nUid:\t0\t0\t0\t0\nVmSize:\t1 kB\nThreads:\t1\n", pid, parent),
		"stat": fmt.Sprintf("%d (p%d) S %d 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0", pid, pid, parent, started)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Untraced CUDA programs that have a slower GPU open are looked for once, and again while the loss grows, every 30 s.
// Monitors, which do not use CUDA, are none. Forked workers of such a program come last. Devices of this machine stand for those of the driver.
func TestGPUUsers(t *testing.T) {
	const uvm, nvidia0, other = "/dev/tty", "/dev/null", "/dev/zero"
	root := t.TempDir()
	processWith(t, root, 42, 1, 500, nvidia0, uvm)
	processWith(t, root, 43, 1, 900, nvidia0)
	processWith(t, root, 44, 1, 900, uvm, other)
	processWith(t, root, 45, 1, 900, uvm, nvidia0)
	processWith(t, root, 46, 1, 700, other, uvm, nvidia0)
	processWith(t, root, 47, 42, 800, uvm, nvidia0)
	for name, text := range map[string]string{"proc/devices": "Character devices:\n  1 nvidia\n  5 nvidia-uvm\n\nBlock devices:\n",
		"proc/driver/nvidia/gpus/0000:0f:00.0/information": "Bus Location: \t 0000:0f:00.0\nDevice Minor: \t 3\n"} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u := newGPUUsers(proc.FS{Root: filepath.Join(root, "proc")}, gpu.Machine{Root: root})
	traced := map[uint32]tracedProcess{45: {}}
	sum := func(pid uint32) tick.HostSum {
		return tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostGPUOpen, PID: pid, Object: "GPU 0"}, Comm: fmt.Sprint("p", pid), Count: 1}
	}
	began := time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		name      string
		at, grown int // s
		gpu       string
		want      []tick.HostSum
	}{
		{"no slower GPU", 1, 1, "", nil},
		{"a slower one", 2, 2, "0", []tick.HostSum{sum(46), sum(42), sum(47)}},
		{"soon again", 30, 30, "0", nil},
		{"later, without more loss", 60, 2, "0", nil},
		{"with more loss", 61, 60, "0", []tick.HostSum{sum(46), sum(42), sum(47)}},
		{"another one, which is unknown", 62, 62, "1", nil},
	} {
		at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
		u.seek(&tick.Tick{Time: at(step.at), Chains: []tick.Chain{{To: at(step.grown), Culprits: []tick.Culprit{{GPU: step.gpu}}}}}, traced)
		if u.looking {
			u.looks <- <-u.looks // it has ended
		}
		got, unread := u.take()
		if diff := cmp.Diff(step.want, got); diff != "" || unread != 0 || u.looking {
			t.Errorf("%s: %d unread (-want +got):\n%s", step.name, unread, diff)
		}
	}
}

// A process that no look can read counts once.
func TestGPUUsersUnread(t *testing.T) {
	u := newGPUUsers(proc.FS{}, gpu.Machine{})
	for _, n := range []uint64{3, 2, 3} {
		u.looks <- gpuLook{unread: n}
		if _, unread := u.take(); unread != 3 {
			t.Errorf("%d unread, want 3", unread)
		}
	}
}

// The users of a GPU come from a tape that is played, not from this machine.
func TestNoGPUUsersOfATape(t *testing.T) {
	p := &Player{}
	if newLive(&LiveOptions{}, nil, p, p, decode.Clock{}).Capabilities().SeekSharers != nil {
		t.Error("processes of this machine are looked for")
	}
}
