// Package outfile writes files atomically: a file is complete or does not exist. It replaces a file
// only on request. Commands that write a file for a person call it.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// File is an unfinished file. It has a temporary name in its target directory, as an absolute path.
// It is for one goroutine.
type File struct {
	*os.File
	path    string
	replace bool
	done    bool
}

// Create begins the file at path. If a file exists that it may not replace, the error wraps
// [fs.ErrExist].
func Create(path string, replace bool) (*File, error) {
	if _, err := os.Lstat(path); err == nil && !replace {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(whole), "."+filepath.Base(path)+".*.part")
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", path, err)
	}
	return &File{File: f, path: whole, replace: replace}, nil
}

// Commit syncs the file, sets its owner and group, and renames it to its final name. Negative IDs
// leave the owner or group unchanged.
func (f *File) Commit(uid, gid int) error {
	err := f.Chown(uid, gid)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.rename()
	}
	if err == nil {
		f.done = true
	}
	return errors.Join(err, f.Close())
}

// rename gives the file its final name. Another file may have that name since Create, so the kernel
// checks again if the file system supports it.
func (f *File) rename() error {
	if !f.replace {
		err := unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, f.path, unix.RENAME_NOREPLACE)
		switch {
		case errors.Is(err, unix.EEXIST):
			return &fs.PathError{Op: "create", Path: f.path, Err: fs.ErrExist}
		case !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS):
			return err
		}
	}
	return os.Rename(f.Name(), f.path)
}

// Discard removes the file unless Commit has renamed it. It is for a defer.
func (f *File) Discard() {
	if f.done {
		return
	}
	f.done = true
	_ = f.Close()
	_ = os.Remove(f.Name())
}
