package proc

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"ingero/internal/elffile"
	"ingero/internal/testkit"
)

// sleeper starts a process that does nothing.
func sleeper(t *testing.T) *testkit.Child {
	t.Helper()
	return testkit.Start(t, exec.Command("cat"))
}

func TestCode(t *testing.T) {
	c := sleeper(t)
	pid, now := uint32(c.PID()), time.Now()
	var list []Mapping
	testkit.Eventually(t, "cat has been started, and has its vdso", func() bool {
		list, _ = FS{}.Code(pid, now)
		return slices.ContainsFunc(list, func(m Mapping) bool { return filepath.Base(m.Path) == "cat" }) &&
			slices.ContainsFunc(list, func(m Mapping) bool { return m.Path == "[vdso]" && m.Key == Key{} })
	})
	for i, m := range list {
		if !m.Exec || m.End <= m.Start || i > 0 && m.Start < list[i-1].End {
			t.Errorf("%+v", m)
		}
	}
	if _, err := (FS{}).Code(pid, now.Add(-time.Hour)); !errors.Is(err, ErrExited) {
		t.Errorf("before it was there: %v", err)
	}
	c.Signal(syscall.SIGKILL)
	_ = c.Wait()
	if _, err := (FS{}).Code(pid, now); !errors.Is(err, ErrExited) {
		t.Errorf("when it had ended: %v", err)
	}
	at := slices.IndexFunc(list, func(m Mapping) bool { return filepath.Base(m.Path) == "cat" })
	f, err := (FS{}).OpenPath(list[at])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other := list[at]
	other.Key.Inode++
	if _, err := (FS{}).OpenPath(other); !errors.Is(err, errOtherFile) {
		t.Errorf("another file: %v", err)
	}
}

func TestOpenIn(t *testing.T) {
	dir := testkit.Tree(t, map[string]string{"file": "text"})
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	pid := uint32(sleeper(t).PID())
	for _, root := range []uint32{0, pid} {
		f, err := (FS{}).OpenIn(root, filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4)
		if _, err := f.ReadAt(b, 0); err != nil || string(b) != "text" {
			t.Errorf("%q, %v", b, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := (FS{}).OpenIn(root, pipe); !errors.Is(err, errNotRegular) {
			t.Errorf("a pipe: %v", err)
		}
		if _, err := (FS{}).OpenIn(root, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("none: %v", err)
		}
		if _, err := (FS{}).OpenIn(root, "file"); err == nil {
			t.Error("a path that begins nowhere was opened")
		}
	}
}

// A link in a container leads to the container's file, not the agent's.
func TestOpenInContainer(t *testing.T) {
	testkit.NeedRoot(t)
	outside := testkit.Tree(t, map[string]string{"secret": "ours"})
	root := t.TempDir()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	testkit.ContainerRoot(t, root, map[string]string{"bin/cat": cat})
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "tmp", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "tmp", "own"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := testkit.Start(t, testkit.Container(t, root, "/bin/cat"))
	c.Send("hello")
	c.Line("hello") // it is in its own root
	pid := uint32(c.PID())
	if f, err := (FS{}).OpenIn(pid, "/tmp/own"); err != nil {
		t.Error(err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := (FS{}).OpenIn(pid, "/tmp/link"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link to outside: %v", err)
	}
}

func TestVDSO(t *testing.T) {
	b, err := FS{}.VDSO()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elffile.BuildID(bytes.NewReader(b)); err != nil {
		t.Error(err)
	}
}
