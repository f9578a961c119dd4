package cli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// Root writes to no link and no pipe that another user may have put in the place of its output.
func TestRootWritesToNoLink(t *testing.T) {
	testkit.NeedRoot(t)
	dir := t.TempDir()
	victim, link, hard, pipe := filepath.Join(dir, "victim"), filepath.Join(dir, "link"), filepath.Join(dir, "hard"), filepath.Join(dir, "pipe")
	err := errors.Join(os.WriteFile(victim, []byte("bytes"), 0o600), os.Symlink(victim, link), os.Link(victim, hard),
		unix.Mkfifo(pipe, 0o600), os.Chown(pipe, 4242, 4242))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // an open for writing does not wait
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	e := &Env{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}
	for _, path := range []string{link, hard, pipe} {
		if f, err := e.reportTo(path); err == nil {
			t.Errorf("%s is opened", filepath.Base(path))
			_ = f.Close()
		}
	}
	if _, err := e.written(pipe, true, func(*os.File) error { return nil }); err == nil {
		t.Error("another user's pipe is written")
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "bytes" {
		t.Errorf("the file has %q: %v", b, err)
	}
}
