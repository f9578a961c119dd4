package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, text string, replace bool) error {
	t.Helper()
	f, err := Create(path, replace)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return f.Commit(-1, -1)
}

func want(t *testing.T, path, text string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != text {
		t.Errorf("%q, %v, want %q", got, err, text)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it lies %v (%v)", entries, err)
	}
}

// An existing file is replaced only on request.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := write(t, path, "one", false); err != nil {
		t.Fatal(err)
	}
	if err := write(t, path, "two", false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replaced unasked: %v", err)
	}
	want(t, path, "one")
	if err := write(t, path, "three", true); err != nil {
		t.Fatal(err)
	}
	want(t, path, "three")
}

// A file that appears during writing is not replaced either.
func TestCameMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	f, err := Create(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(-1, -1); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replaced: %v", err)
	}
	f.Discard()
	want(t, path, "another")
}

// An unfinished file leaves nothing behind.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "x"), false)
	if err != nil {
		t.Fatal(err)
	}
	f.Discard()
	f.Discard()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}
