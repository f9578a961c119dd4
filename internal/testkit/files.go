package testkit

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
)

// Pipes returns a program's standard input and output, and the test's ends: the program reads what
// is written to write, and read reads its output. Pipes closes none of them.
func Pipes(t testing.TB) (stdin, stdout, write, read *os.File) {
	t.Helper()
	stdin, write, err := os.Pipe()
	read, stdout, err2 := os.Pipe()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return stdin, stdout, write, read
}

// Untar calls each for every file of a .tar.gz, in order.
func Untar(t testing.TB, path string, each func(h *tar.Header, content []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		content, err2 := io.ReadAll(r)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		each(h, content)
	}
}

// WriteProgram writes a file that a test executes next. No process is started meanwhile: its child
// would hold the file open for writing until it executes its own program, and the kernel refuses to
// execute a file that is open for writing.
func WriteProgram(t testing.TB, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	err := os.WriteFile(path, content, 0o755)
	if err == nil {
		err = os.Chmod(path, 0o755) // whatever the umask
	}
	if err != nil {
		t.Fatal(err)
	}
}

// CopyProgram copies a file that a test executes next, like [WriteProgram].
func CopyProgram(t testing.TB, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	WriteProgram(t, to, content)
}
