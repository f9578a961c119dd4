// Package outfile makes files that are there whole or not at all, and replaces
// none unasked. Its callers are the commands that write a file for a person.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// File is a file in the making, under a name of its own in the folder that it is
// meant for, by an absolute path. It is for one goroutine.
type File struct {
	*os.File
	path    string
	replace bool
	done    bool
}

// Create begins the file at path. Unless it may replace one, an error that wraps
// [fs.ErrExist] says that there is a file already.
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

// Commit makes the file safe on the disk and gives it its name, for the user and
// the group; negative ones are left as they are.
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

// rename gives the file its name. That there is none by that name was seen when it
// was begun, which may be long ago: the kernel looks again, where the file system can.
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

// Discard removes the file unless it has its name. It is for a defer.
func (f *File) Discard() {
	if f.done {
		return
	}
	f.done = true
	_ = f.Close()
	_ = os.Remove(f.Name())
}
