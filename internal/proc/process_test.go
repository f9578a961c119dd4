package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

func TestProcessOfOwnChild(t *testing.T) {
	before := time.Now()
	h := startHelper(t, func(c *exec.Cmd) { c.Args = []string{"a secret", "", "b"} })
	after := time.Now()
	p, err := FS{}.Process(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != h.pid || p.PPID != uint32(os.Getpid()) || p.UID != uint32(os.Getuid()) {
		t.Errorf("PID, PPID, UID = %d, %d, %d, want %d, %d, %d", p.PID, p.PPID, p.UID, h.pid, os.Getpid(), os.Getuid())
	}
	if want := filepath.Base(exe)[:min(15, len(filepath.Base(exe)))]; p.Comm != want || p.Exe != exe {
		t.Errorf("Comm, Exe = %q, %q, want %q, %q", p.Comm, p.Exe, want, exe)
	}
	// The kernel rounds down to 10 ms.
	if p.Started.Before(before.Add(-20*time.Millisecond)) || p.Started.After(after) {
		t.Errorf("Started = %v, want it in [%v, %v]", p.Started, before, after)
	}
	if p.Threads < 1 || p.Kernel || p.Zombie || p.Seccomp != 0 || p.NSPID() != h.pid || p.Cgroup == "" {
		t.Errorf("facts = %+v", p)
	}
	again, err := FS{}.Process(h.pid)
	if err != nil || again.StartTicks != p.StartTicks {
		t.Errorf("StartTicks = %d then %d, %v", p.StartTicks, again.StartTicks, err)
	}
	if start, err := (FS{}).StartTicks(h.pid); err != nil || start != p.StartTicks {
		t.Errorf("StartTicks() = %d, %v, want %d", start, err, p.StartTicks)
	}
}

// Start times do not follow steps of the wall clock: a process that ran before a step still does.
func TestStartTimeAfterAClockStep(t *testing.T) {
	h := startHelper(t, nil)
	before, err := FS{}.Process(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	seen := time.Unix(0, time.Now().UnixNano()) // as the times of events, without a reading of another clock
	synctest.Test(t, func(t *testing.T) {       // here the wall clock shows the year 2000
		if year := time.Now().Year(); year != 2000 {
			t.Fatalf("the wall clock shows %d", year)
		}
		after, err := FS{}.Process(h.pid)
		if err != nil {
			t.Fatal(err)
		}
		if d := after.Started.Sub(before.Started).Abs(); d > startSlack {
			t.Errorf("the start time moved by %v", d)
		}
		for _, tt := range []struct {
			name string
			at   time.Time
			want error
		}{{"while it ran", seen, nil}, {"before its start", seen.Add(-time.Hour), ErrExited}} {
			if _, err := (FS{}).Code(h.pid, tt.at); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
	})
}

// Start times have the offset of the caller's clock.
func TestStartTimeByAnOffset(t *testing.T) {
	h := startHelper(t, nil)
	want, err := FS{}.Process(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	fs := FS{Offset: began.wall.UnixNano() - int64(began.mono) + int64(time.Hour)}
	got, err := fs.Process(h.pid)
	if d := got.Started.Sub(want.Started) - time.Hour; err != nil || d.Abs() > startSlack {
		t.Errorf("the start time is off by %v (%v)", d, err)
	}
	for at, want := range map[time.Time]error{got.Started: nil, want.Started: ErrExited, {}: nil} {
		if _, err := fs.Code(h.pid, at); !errors.Is(err, want) {
			t.Errorf("at %v: %v, want %v", at, err, want)
		}
	}
}

func TestProcessWithOddName(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const name = "a) R (b\n\\c"
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	h := startHelper(t, func(c *exec.Cmd) { c.Path = link })
	p, err := FS{}.Process(h.pid)
	if err != nil || p.Comm != name || p.PPID != uint32(os.Getpid()) {
		t.Errorf("Comm = %q, parent %d, %v, want %q", p.Comm, p.PPID, err, name)
	}
}

func TestProcessInPIDNamespace(t *testing.T) {
	testkit.NeedRoot(t)
	h := startHelper(t, func(c *exec.Cmd) {
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	})
	p, err := FS{}.Process(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.NSPIDs, []uint32{h.pid, 1}) || p.NSPID() != 1 {
		t.Errorf("NSPIDs = %v, want %d and 1", p.NSPIDs, h.pid)
	}
	if tid, err := (FS{}).ThreadCalled(h.pid, 1); tid != h.pid || err != nil {
		t.Errorf("the thread that calls itself 1 is %d, %v, want %d", tid, err, h.pid)
	}
	if tid, err := (FS{}).ThreadCalled(h.pid, 1<<22); !errors.Is(err, ErrExited) {
		t.Errorf("a thread that is not there is %d, %v", tid, err)
	}
	if got := h.do("hostpids"); got != "false" {
		t.Errorf("HostPIDs in there = %s, want false", got)
	}
	if got := h.do("hostpids " + t.TempDir()); got != "false" {
		t.Errorf("HostPIDs in there, with its own proc = %s, want false", got)
	}
}

func TestHostPIDs(t *testing.T) {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	got, err := FS{}.HostPIDs()
	if want := ns == firstPIDNamespace; got != want || err != nil {
		t.Errorf("HostPIDs = %v, %v in %s", got, err, ns)
	}
}

func TestGone(t *testing.T) {
	h := startHelper(t, nil)
	elf := elfFile(t, filepath.Join(t.TempDir(), "libcuda.so.1"), 'A')
	h.do("map " + elf)
	lib := only(t, h.pid)
	d, err := FS{}.openPID(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	h.Signal(syscall.SIGKILL)
	_ = h.Wait() // killed: an error

	fs := FS{}
	for name, ask := range map[string]func() error{
		"process":   func() error { _, err := fs.Process(h.pid); return err },
		"start":     func() error { _, err := fs.StartTicks(h.pid); return err },
		"program":   func() error { _, err := fs.Program(h.pid, []string{"HOME"}); return err },
		"maps":      func() error { _, err := fs.Maps(h.pid, false); return err },
		"libraries": func() error { _, err := fs.Libraries(h.pid, Names{}); return err },
		"open":      func() error { _, _, err := fs.OpenMapped(h.pid, lib.Mapping); return err },
		// The directory was opened before the end, as in a race.
		"maps, in the middle":  func() error { return d.eachMapping(func(*mapLine) {}) },
		"link, in the middle":  func() error { _, err := d.link("exe"); return err },
		"facts, in the middle": func() error { _, err := fs.facts(d, &status{}, nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			if err := ask(); !errors.Is(err, ErrExited) {
				t.Errorf("error = %v, want ErrExited", err)
			}
		})
	}
}

// A process lives until all of its threads have begun to end: before the last of them is a zombie.
func TestLives(t *testing.T) {
	const pid, start = 7, 12345
	stat := func(flags, start uint64) string {
		return fmt.Sprintf("7 (x) R 1 7 7 0 -1 %d 0 0 0 0 0 0 0 0 20 0 2 0 %d 0 0", flags, start)
	}
	runs, ends := stat(0x400040, start), stat(0x400044, start)
	for _, tt := range []struct {
		name    string
		threads map[string]string // the process's own file is that of its main thread
		want    bool
	}{
		{"it runs", map[string]string{"7": runs}, true},
		{"one of its threads ends", map[string]string{"7": runs, "8": ends}, true},
		{"its main thread has ended", map[string]string{"7": ends, "8": ends, "9": runs}, true},
		{"all of its threads end", map[string]string{"7": ends, "8": ends}, false},
		{"another has its number", map[string]string{"7": stat(0x400040, start+1)}, false},
		{"it is gone", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for tid, text := range tt.threads {
				dir := filepath.Join(root, "7", "task", tid)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				files := []string{filepath.Join(dir, "stat")}
				if tid == "7" {
					files = append(files, filepath.Join(root, "7", "stat"))
				}
				for _, file := range files {
					if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := (FS{Root: root}).Lives(&Process{PID: pid, StartTicks: start}); got != tt.want {
				t.Errorf("it lives: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestKernelThread(t *testing.T) {
	p, err := FS{}.Process(2) // kthreadd, in the first PID namespace
	if host, herr := (FS{}).HostPIDs(); herr != nil || !host {
		testkit.NeedKernel(t, "its first PID namespace", host)
	}
	if err != nil || !p.Kernel || p.Exe != "" {
		t.Errorf("pid 2 = %+v, %v, want a kernel thread", p, err)
	}
}

func BenchmarkProcess(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (FS{}).Process(uint32(os.Getpid())); err != nil {
			b.Fatal(err)
		}
	}
}
