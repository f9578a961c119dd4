package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

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

// opens returns how often a directory is opened during f.
func opens(t *testing.T, dir string, f func()) (n int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	// Equal events that follow each other are one event: so count the opens between closes.
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN|unix.IN_CLOSE_NOWRITE); err != nil {
		t.Fatal(err)
	}
	f()
	buf := make([]byte, 1<<16)
	got, err := unix.Read(fd, buf)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	for b := buf[:max(got, 0)]; len(b) >= unix.SizeofInotifyEvent; {
		if binary.NativeEndian.Uint32(b[4:])&unix.IN_OPEN != 0 {
			n++
		}
		b = b[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])):] // with the name
	}
	return n
}

// Untraced CUDA programs that have a slower GPU open are looked for once, and again while the loss grows, every 30 s. One
// look is for all slower GPUs. Monitors, which do not use CUDA, are none. Forked workers of such a program come last.
// Devices of this machine stand for those of the driver.
func TestGPUUsers(t *testing.T) {
	const uvm, nvidia0, nvidia1 = "/dev/tty", "/dev/null", "/dev/zero"
	root := t.TempDir()
	processWith(t, root, 42, 1, 500, nvidia0, uvm)
	processWith(t, root, 43, 1, 900, nvidia0)
	processWith(t, root, 44, 1, 900, uvm, nvidia1)
	processWith(t, root, 45, 1, 900, uvm, nvidia0)
	processWith(t, root, 46, 1, 700, nvidia1, uvm, nvidia0)
	processWith(t, root, 47, 42, 800, uvm, nvidia0)
	for name, text := range map[string]string{"proc/devices": "Character devices:\n  1 nvidia\n  5 nvidia-uvm\n\nBlock devices:\n",
		"proc/driver/nvidia/gpus/0000:0f:00.0/information": "Bus Location: \t 0000:0f:00.0\nDevice Minor: \t 3\n",
		"proc/driver/nvidia/gpus/0000:1f:00.0/information": "Bus Location: \t 0000:1f:00.0\nDevice Minor: \t 5\n"} {
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
	sum := func(gpu string, pid uint32) tick.HostSum {
		return tick.HostSum{HostKey: tick.HostKey{Kind: tick.HostGPUOpen, PID: pid, Object: "GPU " + gpu}, Comm: fmt.Sprint("p", pid), Count: 1}
	}
	all := []tick.HostSum{sum("0", 46), sum("0", 42), sum("0", 47)}
	began := time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		name      string
		at, grown int // s
		gpus      []string
		walks     int // over the open files of all processes
		want      []tick.HostSum
	}{
		{"no slower GPU", 1, 1, []string{""}, 0, nil},
		{"a slower one", 2, 2, []string{"0"}, 1, all},
		{"soon again", 30, 30, []string{"0"}, 0, nil},
		{"later, without more loss", 60, 2, []string{"0"}, 0, nil},
		{"with more loss", 61, 60, []string{"0"}, 1, all},
		{"another one, which is unknown", 62, 62, []string{"2"}, 0, nil},
		{"a new one, and one soon again", 63, 63, []string{"0", "1"}, 1, append(all[:3:3], sum("1", 44), sum("1", 46))},
		{"both soon again", 92, 92, []string{"0", "1"}, 0, nil},
		{"both later", 93, 93, []string{"1", "0"}, 1, append([]tick.HostSum{sum("1", 44), sum("1", 46)}, all...)},
	} {
		at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
		x := tick.Tick{Time: at(step.at)}
		for _, name := range step.gpus {
			x.Chains = append(x.Chains, tick.Chain{To: at(step.grown), Culprits: []tick.Culprit{{GPU: name}}})
		}
		walks := opens(t, filepath.Join(root, "proc/42/fd"), func() {
			u.seek(&x, traced)
			if u.looking {
				u.looks <- <-u.looks // it has ended
			}
		})
		got, unread := u.take()
		if diff := cmp.Diff(step.want, got); diff != "" || walks != step.walks || unread != 0 || u.looking {
			t.Errorf("%s: %d walks, want %d; %d unread (-want +got):\n%s", step.name, walks, step.walks, unread, diff)
		}
	}
}

// A tick gets as many users as can be described in it. Those of a later look at a GPU replace the ones that wait.
func TestGPUUsersOfManyGPUs(t *testing.T) {
	u := newGPUUsers(proc.FS{}, gpu.Machine{})
	of := func(gpu string, n int) []tick.HostSum {
		return slices.Repeat([]tick.HostSum{{HostKey: tick.HostKey{Object: gpu}}}, n)
	}
	for _, step := range []struct {
		look []tick.HostSum
		want []tick.HostSum
	}{
		{of("0", 2*lookups+1), of("0", lookups)},
		{nil, of("0", lookups)},
		{nil, of("0", 1)},
		{nil, nil},
		{append(of("0", 2*lookups), of("1", 1)...), of("0", lookups)},
		{of("0", 2), append(of("1", 1), of("0", 2)...)},
		{nil, nil},
	} {
		if step.look != nil {
			u.looks <- gpuLook{users: step.look}
		}
		got, _ := u.take()
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
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
