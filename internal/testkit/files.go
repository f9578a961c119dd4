package testkit

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
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
