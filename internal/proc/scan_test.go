package proc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

func pidsOf(ps []Process) (out []uint32) {
	for _, p := range ps {
		out = append(out, p.PID)
	}
	return out
}

func TestScan(t *testing.T) {
	testkit.NeedRoot(t) // for two users
	const bob = 4242
	dir := t.TempDir()
	cudart := elfFile(t, filepath.Join(dir, "libcudart.so.12"), 'A')
	cuda := elfFile(t, filepath.Join(dir, "libcuda.so.1"), 'B')
	mine, plain, bobs := startHelper(t, nil), startHelper(t, nil), startHelper(t, nil)
	plain.do("map " + elfFile(t, filepath.Join(dir, "libnvToolsExt.so.1"), 'C')) // makes no CUDA calls
	mine.do("map " + cudart)
	mine.do("map " + cuda)
	bobs.do("map " + cuda)
	bobs.do(fmt.Sprint("setuid ", bob))
	self := uint32(os.Getpid())
	both := []uint32{min(mine.pid, bobs.pid), max(mine.pid, bobs.pid)}
	for _, tt := range []struct {
		name string
		sel  Selector
		want []uint32
		not  []uint32
	}{
		{name: "one", sel: Selector{PIDs: []uint32{mine.pid}}, want: []uint32{mine.pid}},
		{name: "one without CUDA", sel: Selector{PIDs: []uint32{plain.pid}}},
		{name: "none", sel: Selector{}},
		{name: "a parent, and so its children", sel: Selector{PIDs: []uint32{self}}, want: both},
		{name: "a parent alone", sel: Selector{PIDs: []uint32{self}, Alone: true}},
		{name: "no such process", sel: Selector{PIDs: []uint32{1 << 30}}},
		{name: "a user", sel: Selector{UIDs: []uint32{bob}}, want: []uint32{bobs.pid}},
		{name: "a user, and none of his", sel: Selector{UIDs: []uint32{bob}, Only: func(p *Process) bool { return p.Cgroup == "" }}},
		{name: "a user, and one of his", sel: Selector{UIDs: []uint32{bob}, Only: func(p *Process) bool { return p.PID == bobs.pid && p.Cgroup != "" }}, want: []uint32{bobs.pid}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := FS{}.Scan(t.Context(), tt.sel, Names{})
			if err != nil || !slices.Equal(pidsOf(got), tt.want) {
				t.Errorf("Scan = %v, %v, want %v", pidsOf(got), err, tt.want)
			}
		})
	}
	t.Run("all", func(t *testing.T) { // other tests' processes may exist too
		got, _, err := FS{}.Scan(t.Context(), Selector{All: true}, Names{})
		if err != nil {
			t.Fatal(err)
		}
		pids := pidsOf(got)
		if !slices.Contains(pids, mine.pid) || !slices.Contains(pids, bobs.pid) || slices.Contains(pids, plain.pid) {
			t.Errorf("Scan = %v, want %v and not %d", pids, both, plain.pid)
		}
		i := slices.Index(pids, mine.pid)
		if len(got[i].Libraries) != 2 || got[i].Comm == "" || got[i].UID != 0 {
			t.Errorf("process = %+v, want two libraries", got[i])
		}
	})
	t.Run("descendants", func(t *testing.T) {
		got, err := FS{}.Descendants(t.Context(), []uint32{self})
		for _, p := range []uint32{mine.pid, plain.pid, bobs.pid} {
			if !slices.Contains(got, p) {
				t.Errorf("Descendants = %v, %v, want %d", got, err, p)
			}
		}
		if slices.Contains(got, self) || !slices.IsSorted(got) {
			t.Errorf("Descendants = %v, want them sorted and without %d", got, self)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := (FS{}).Scan(ctx, Selector{All: true}, Names{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Scan: %v", err)
		}
	})
}

// A scan while processes start and end returns no error.
func TestScanWhileProcessesEnd(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			if err := exec.Command("/bin/true").Run(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for {
		if _, _, err := (FS{}).Scan(t.Context(), Selector{All: true}, Names{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// BenchmarkScan scans the processes of all users, 500 of which the benchmark starts.
func BenchmarkScan(b *testing.B) {
	for range 500 {
		cmd := exec.Command("/bin/cat")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := testkit.Launch(cmd); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _, _ = stdin.Close(), cmd.Wait() })
	}
	pids, err := FS{}.pids()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(pids)), "processes")
	for name, sel := range map[string]Selector{"all": {All: true}, "user": {UIDs: []uint32{4242}}, "pid": {PIDs: []uint32{1}}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := (FS{}).Scan(context.Background(), sel, Names{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// fixture adds a process to a made-up proc file system.
func fixture(t *testing.T, root string, pid int, files map[string]string) {
	t.Helper()
	dir := filepath.Join(root, fmt.Sprint(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"cgroup": "0::/kubepods/pod7\n", "status": statusText,
		"stat": fmt.Sprintf("%d (python3) S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 4 0 12345 0 0", pid)}
	maps.Copy(all, files)
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A made-up proc file system has processes that the test cannot start.
func TestScanOfFixture(t *testing.T) {
	root := t.TempDir()
	boot := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const lib = "1000-2000 r-xp 00000000 08:01 77 /opt/libcudart-0ab5f9e1.so.12\n"
	write := func(pid int, status, maps string) {
		t.Helper()
		fixture(t, root, pid, map[string]string{"status": status, "maps": maps})
	}
	write(10, statusText, lib)
	write(11, "State:\tZ (zombie)\nPPid:\t1\nUid:\t1000\nThreads:\t1\n", lib)
	write(12, "State:\tI (idle)\nPPid:\t2\nUid:\t1000\nThreads:\t1\nKthread:\t1\n", lib)
	if err := os.Mkdir(filepath.Join(root, "13"), 0o755); err != nil { // ended meanwhile
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "stat"), []byte("cpu 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, _, err := FS{Root: root, Boot: boot}.Scan(t.Context(), Selector{UIDs: []uint32{1000}}, Names{})
	if err != nil || len(got) != 1 {
		t.Fatalf("Scan = %+v, %v, want one", got, err)
	}
	p := got[0]
	if !p.Started.Equal(boot.Add(123450*time.Millisecond)) || p.Cgroup != "/kubepods/pod7" || p.Seccomp != 2 ||
		!p.ShadowStack || p.NSPID() != 1 || p.Threads != 37 || len(p.Libraries) != 1 {
		t.Errorf("process = %+v", p)
	}
	write(14, "garbage", lib)
	write(15, strings.Replace(statusText, "Threads:", "Groups:\t"+strings.Repeat("4000000000 ", 60_000)+"\nThreads:", 1), lib)
	write(16, statusText, "7f0000000000-7f0000001000 r--p 00000000 08:01 9 /"+strings.Repeat("d/", 20_000)+"f\n"+lib)
	got, unread, err := (FS{Root: root}).Scan(t.Context(), Selector{UIDs: []uint32{1000}}, Names{})
	if err != nil || len(got) != 3 || got[1].PID != 15 || got[2].PID != 16 || len(got[2].Libraries) != 1 {
		t.Errorf("Scan with garbage, many groups and a long path = %+v, %v", got, err)
	}
	if len(unread) != 1 || unread[0].PID != 14 || !errors.Is(unread[0].Err, errFormat) {
		t.Errorf("unread = %+v", unread)
	}
	if _, _, err := (FS{Root: filepath.Join(root, "none")}).Scan(t.Context(), Selector{}, Names{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Scan of nothing: %v", err)
	}
}
