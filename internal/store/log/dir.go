package log

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Files are the files of a database's directory, wherever they are stored.
type Files interface {
	// List returns the names and sizes of all files.
	List() ([]FileInfo, error)
	// Open opens a file. The error wraps [fs.ErrNotExist] if it is gone.
	Open(name string) (File, error)
}

// FileInfo describes one of [Files].
type FileInfo struct {
	Name  string
	Bytes int64
}

// File is an open one of [Files].
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes, when it was opened
}

// Dir is [Files] of a directory.
type Dir string

// List implements [Files]. A missing directory has no files.
func (d Dir) List() ([]FileInfo, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := make([]FileInfo, 0, len(entries))
	for _, e := range entries {
		if s, err := e.Info(); err == nil && s.Mode().IsRegular() {
			out = append(out, FileInfo{e.Name(), s.Size()})
		}
	}
	return out, nil
}

// Open implements [Files].
//
// Files other than regular ones count as missing: a link leads nowhere else, and a pipe blocks
// nobody.
func (d Dir) Open(name string) (File, error) {
	f, err := OpenPlain(filepath.Join(string(d), filepath.Base(name)))
	if err != nil {
		return nil, err
	}
	s, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return osFile{f, s.Size()}, nil
}

// OpenPlain opens a regular file for reading.
func OpenPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a link, a socket
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	if s, err := f.Stat(); err != nil || !s.Mode().IsRegular() {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}, err, f.Close())
	}
	return f, nil
}

type osFile struct {
	*os.File
	size int64
}

func (f osFile) Size() int64 { return f.size }
