package python_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/python"
	"ingero/internal/testkit"
)

// loopLib compiles testdata/loop.c into a library.
func loopLib(t testing.TB) string {
	t.Helper()
	testkit.NeedTool(t, "gcc")
	lib := filepath.Join(t.TempDir(), "libloop.so")
	if out, err := exec.Command("gcc", "-O2", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", lib, "testdata/loop.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

// For threads that stand still, the user-space walker sees the frames that they see themselves.
func TestWalker(t *testing.T) {
	testkit.NeedRoot(t)
	lib := loopLib(t)
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "testdata/stand.py", lib, dir))
			c.Line("ready")
			p, target := find(t, c.PID())
			w, err := python.NewWalker(target, p)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "all threads to stand still: nobody has the lock", func() bool {
				gils, err := w.GILs()
				return err == nil && len(gils) == 1 && gils[0].Holder == 0
			})
			codes := (&kernel{t: t, known: map[uint32]*python.Process{uint32(c.PID()): p}}).codes()
			want := testkit.PythonTruth(t, dir)
			if len(want) != 6 {
				t.Fatalf("%d threads, want 6", len(want))
			}
			for key, lines := range want {
				frames, end, err := w.Walk(uint32(key.Number))
				if err != nil || end != python.EndOK {
					t.Errorf("thread %d: %v, %v", key.Number, end, err)
				}
				if got := shown(codes.Resolve(uint32(c.PID()), 0, frames)); !slices.Equal(got, lines) {
					t.Errorf("thread %d:\n got %s\nwant %s", key.Number, strings.Join(got, "\n     "), strings.Join(lines, "\n     "))
				}
			}
			if _, end, err := w.Walk(1); end != python.EndNoThread {
				t.Errorf("a thread that is not there: %v, %v", end, err)
			}
		})
	}
}

// The GIL's holder and its futex are found.
func TestGIL(t *testing.T) {
	testkit.NeedRoot(t)
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			const busy = `import os, sys, threading
print("ready", os.getpid(), flush=True)
threading.Thread(target=sys.stdin.readline, daemon=True).start()
while True: pass`
			c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "-c", busy))
			c.Line("ready")
			p, target := find(t, c.PID())
			w, err := python.NewWalker(target, p)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the main thread to have the lock", func() bool {
				gils, err := w.GILs()
				return err == nil && len(gils) == 1 && gils[0].Holder == uint32(c.PID())
			})
			gils, err := w.GILs()
			if err != nil {
				t.Fatal(err)
			}
			for off, want := range map[uint64]bool{0: false, 16: false, 32: true, 79: true, 80: true, 119: true, 120: false} {
				if got := gils[0].Waits(gils[0].At + off); got != want {
					t.Errorf("futex at %d: %v, want %v", off, got, want)
				}
			}
		})
	}
}

// A process that writes garbage into its frames gets no frames, or real ones, and disturbs no other
// process.
func TestHostileProcess(t *testing.T) {
	lib := loopLib(t)
	k := watch(t, load(t, nil), lib, "probed")
	version := testkit.PythonVersion(t)
	if version == "3.10" || version == "3.14" { // hostile.py knows the frames of others
		version = "3.12"
	}
	c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "testdata/hostile.py", lib))
	c.Line("ready")
	p, target := find(t, c.PID())
	k.tell(c.PID(), p)
	c.Send("go")
	c.Line("done")
	const calls = 10*3 + 1 + 2000 + 10
	testkit.Eventually(t, "all stacks", func() bool { return len(k.all()) >= calls })
	codes := k.codes()
	ends := map[python.End]int{}
	for _, s := range k.all() {
		ends[s.end]++
		got := shown(codes.Resolve(s.pid, s.epoch, s.frames))
		if len(got) == 0 || !strings.HasPrefix(got[0], "attack at ") {
			t.Fatalf("the innermost frame was sound, and is not there: %q", got)
		}
	}
	t.Logf("walks ended: %v", ends)
	for _, e := range []python.End{python.EndCut, python.EndFault, python.EndStrange} {
		if ends[e] == 0 {
			t.Errorf("no walk ended with %q", e)
		}
	}
	if w, err := python.NewWalker(target, p); err != nil {
		t.Error(err)
	} else if _, _, err := w.Walk(uint32(c.PID())); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	c.Signal(syscall.SIGKILL)
}
