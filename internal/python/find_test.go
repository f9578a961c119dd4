package python_test

import (
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/testkit"
)

// findErr looks for an interpreter, and returns the error.
func findErr(t *testing.T, pid int) error {
	t.Helper()
	mem, err := (proc.FS{}).Memory(uint32(pid), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	_, err = python.Find(python.Target{PID: uint32(pid), Memory: mem})
	return err
}

func TestNotPython(t *testing.T) {
	testkit.NeedRoot(t)
	c := testkit.Start(t, exec.Command("sleep", "1000"))
	testkit.Eventually(t, "the program to run", func() bool {
		maps, err := (proc.FS{}).Maps(uint32(c.PID()), true)
		return err == nil && len(maps) > 0 && filepath.Base(maps[0].Path) == "sleep"
	})
	if err := findErr(t, c.PID()); !errors.Is(err, python.ErrNotPython) {
		t.Errorf("got %v, want %v", err, python.ErrNotPython)
	}
}

// Interpreters are found in another mount and PID namespace, renamed, and in a virtual environment.
func TestFindInNamespaces(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "unshare", "mount")
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			program, err := filepath.EvalSymlinks(testkit.NeedPython(t, version))
			if err != nil {
				t.Fatal(err)
			}
			home := filepath.Dir(filepath.Dir(program))
			script := "mount --bind " + home + " /mnt && cd /mnt && exec env LD_LIBRARY_PATH=/mnt/lib /mnt/bin/" + filepath.Base(program) +
				" -c \"import os; print('ready', os.getpid(), flush=True); input()\""
			c := testkit.Start(t, exec.Command("unshare", "--mount", "--pid", "--fork", "sh", "-c", script))
			if l := c.Line("ready"); l != "ready 1" {
				t.Fatalf("%q: not in a namespace of its own", l)
			}
			children, err := childrenOf(c.PID())
			if err != nil || len(children) != 1 {
				t.Fatalf("children: %v, %v", children, err)
			}
			p, target := find(t, children[0])
			if p.Version.String() != version || filepath.Dir(filepath.Dir(p.Path)) != "/mnt" {
				t.Errorf("got CPython %s in %s", p.Version, p.Path)
			}
			w, err := python.NewWalker(target, p)
			if err != nil {
				t.Fatal(err)
			}
			if frames, end, err := w.Walk(1); len(frames) == 0 || end != python.EndOK || err != nil {
				t.Errorf("%d frames, %v, %v", len(frames), end, err)
			}
		})
	}
}

// A memory reader that has only the process number reads the same.
func TestVM(t *testing.T) {
	testkit.NeedRoot(t)
	version := testkit.PythonVersion(t)
	c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "-c", "print('ready', flush=True); input()"))
	c.Line("ready")
	p, err := python.Find(python.Target{PID: uint32(c.PID()), Memory: proc.VM(c.PID())})
	if err != nil || p.Version.String() != version {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := proc.VM(c.PID()).ReadAt(make([]byte, 8), 8); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("where nothing is: %v", err)
	}
}
