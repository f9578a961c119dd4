package probes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ingero/internal/probes"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// compile builds a shared library from one C source.
func compile(t *testing.T, path, source string) {
	t.Helper()
	src := filepath.Join(t.TempDir(), "x.c")
	if err := os.WriteFile(src, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	gcc(t, "-w", "-O1", "-shared", "-fPIC", "-o", path, src)
}

// Two containers made from one lower layer show one library as two files whose probes share one
// inode: each call counts once.
func TestOverlaysOfOneLayerCountOnce(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	lower := filepath.Dir(library)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows("cudaStreamSynchronize", "cudaLaunchHostFunc")})
			var children []*testkit.Child
			for range 2 {
				merged := overlay(t, lower)
				cmd := exec.Command(filepath.Join(merged, filepath.Base(program)), "throw")
				cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+merged)
				child := testkit.Start(t, cmd)
				child.Line("ready")
				if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
					t.Fatal(err)
				}
				attach(t, tr, filepath.Join(merged, filepath.Base(library)), events.LibCudart)
				children = append(children, child)
			}
			for _, child := range children {
				child.Send("go")
				if err := child.Wait(); err != nil {
					t.Error(err)
				}
			}
			checkOverlay(t, tr)
		})
	}
}

// When one of two links on one inode is removed with its container, the other's hits count, even in
// a thread that both have seen.
func TestOneOfTwoOverlaysGoes(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	library, program := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows("cudaLaunchHostFunc")})
			var merged [2]string
			var attached [2]*probes.Attached
			for i := range merged {
				merged[i] = overlay(t, filepath.Dir(library))
			}
			cmd := exec.Command(program, "rounds")
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+merged[0])
			child := testkit.Start(t, cmd)
			child.Line("ready")
			if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
				t.Fatal(err)
			}
			for i := range merged {
				attached[i] = attach(t, tr, filepath.Join(merged[i], filepath.Base(library)), events.LibCudart)
			}
			rounds := []func(){
				func() {},
				func() { _ = attached[0].Close() },
				func() {
					attached[0] = attach(t, tr, filepath.Join(merged[0], filepath.Base(library)), events.LibCudart)
				},
				func() { _ = attached[1].Close() },
			}
			for i, change := range rounds {
				change()
				child.Send("")
				child.Line("called")
				n := uint64(100 * (i + 1))
				want := map[string]account{"cudaLaunchHostFunc": {Calls: n, Unmeasured: n}}
				if diff := cmp.Diff(want, accounts(t, tr)); diff != "" {
					t.Fatalf("after round %d (-want +got):\n%s", i, diff)
				}
			}
			if dropped(t, tr)["duplicate-link"] == 0 {
				t.Error("no duplicate was seen: the overlays do not share an inode, and this tests nothing")
			}
		})
	}
}

// overlay mounts the view of a container made from the layer lower.
func overlay(t *testing.T, lower string) (merged string) {
	t.Helper()
	dir := t.TempDir()
	// An upper layer cannot be on an overlay, as a temporary directory may be.
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for _, d := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	merged = filepath.Join(dir, "merged")
	opts := "lowerdir=" + lower + ",upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	if err := unix.Mount("overlay", merged, "overlay", 0, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(merged, unix.MNT_DETACH) })
	return merged
}

// checkOverlay checks that each of the two processes has its hundred calls.
func checkOverlay(t *testing.T, tr *probes.Tracer) {
	t.Helper()
	perProcess := map[uint32]map[string]uint64{}
	if err := tr.Counts(func(c *probes.CountsRow) {
		if perProcess[c.PID] == nil {
			perProcess[c.PID] = map[string]uint64{}
		}
		perProcess[c.PID][tr.Rows()[c.Row].Name] = c.Calls
	}); err != nil {
		t.Fatal(err)
	}
	if len(perProcess) != 2 {
		t.Errorf("calls of %d processes, want 2", len(perProcess))
	}
	for pid, got := range perProcess {
		if diff := cmp.Diff(map[string]uint64{"cudaStreamSynchronize": 100, "cudaLaunchHostFunc": 100}, got); diff != "" {
			t.Errorf("calls of process %d (-want +got):\n%s", pid, diff)
		}
	}
	duplicates, err := tr.Duplicates()
	if err != nil || duplicates != dropped(t, tr)["duplicate-link"] || duplicates == 0 {
		t.Errorf("%d duplicates: the overlays do not share an inode, and this tests nothing; %v", duplicates, err)
	}
}

// If a branch of the function leads to the cheap place, the probe goes on the first byte, and one
// call counts once.
func TestBranchToTheCheapPlace(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	dir := t.TempDir()
	lib := filepath.Join(dir, "libbranch.so")
	// endbr64; push; pop; dec edi; jg back to the push; ret
	compile(t, lib, `__asm__(".globl cudaDeviceSynchronize\n.type cudaDeviceSynchronize,@function\n"
		"cudaDeviceSynchronize: mov $5,%edi; endbr64; 1: push %rbp; pop %rbp; dec %edi; jg 1b; xor %eax,%eax; ret\n"
		".size cudaDeviceSynchronize,.-cudaDeviceSynchronize\n"
		".globl cudaThreadSynchronize\n.type cudaThreadSynchronize,@function\n"
		"cudaThreadSynchronize: endbr64; 1: push %rbp; pop %rbp; dec %edi; jg 1b; xor %eax,%eax; ret\n"
		".size cudaThreadSynchronize,.-cudaThreadSynchronize\n");`)
	use := filepath.Join(dir, "use")
	src := filepath.Join(dir, "use.c")
	if err := os.WriteFile(src, []byte(`#include <stdio.h>
int cudaDeviceSynchronize(void); int cudaThreadSynchronize(int);
int main(void) { puts("ready"); fflush(stdout); getchar(); for (int i = 0; i < 10; i++) { cudaDeviceSynchronize(); cudaThreadSynchronize(5); } return 0; }`), 0o644); err != nil {
		t.Fatal(err)
	}
	gcc(t, "-o", use, src, lib, "-Wl,-rpath,"+dir)
	tr := tracer(t, probes.Options{Rows: testkit.OpRows("cudaDeviceSynchronize", "cudaThreadSynchronize")})
	child := testkit.Start(t, exec.Command(use))
	child.Line("ready")
	if err := tr.Trace(uint32(child.PID()), probes.Target{}); err != nil {
		t.Fatal(err)
	}
	a := attach(t, tr, lib, events.LibCudart)
	if a.Stepped != 2 {
		t.Errorf("%d probes at a dear place, want 2", a.Stepped)
	}
	child.Send("go")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	want := map[string]account{"cudaDeviceSynchronize": {Calls: 10, Done: 10}, "cudaThreadSynchronize": {Calls: 10, Done: 10}}
	if diff := cmp.Diff(want, accounts(t, tr)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// A link that fails rolls back what was attached before it.
func TestHalfAttachedIsRolledBack(t *testing.T) {
	testkit.NeedBPF(t)
	library, _ := harm(t)
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			testkit.LeakCheck(t)
			tr := tracer(t, probes.Options{Mode: mode, Rows: testkit.OpRows("cudaStreamSynchronize")})
			f, err := os.Open(library)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			// The second process does not exist, so its links fail.
			a, err := tr.Attach(probes.Object{Path: library, Name: library, File: f, Lib: events.LibCudart}, uint32(os.Getpid()), 1<<22-1)
			if err == nil {
				t.Fatal("attached to a process that does not exist")
			}
			if a != nil {
				t.Errorf("Attach returned %+v beside an error", a)
			}
		})
	}
}

// A file that is no library gives an error, and a hostile one no panic.
func TestAttachRefusesWhatIsNoLibrary(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	tr := tracer(t, probes.Options{})
	for name, content := range map[string]string{"empty": "", "text": "#!/bin/sh\n", "cut": "\x7fELF\x02\x01\x01"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "libcudart.so")
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if a, err := tr.Attach(probes.Object{Path: path, Name: path, File: f, Lib: events.LibCudart}); err == nil {
				t.Errorf("attached %+v", a)
			}
		})
	}
}
