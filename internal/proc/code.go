package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// Limits on a process's code.
const (
	maxCode = 1 << 15 // mappings per process
	maxVDSO = 1 << 18 // bytes; two to five pages in use
)

// Code lists the executable mappings of the process that had a number at a time (zero: now), by address: of
// files, of memory without a file (no Path: code made at run time), and of the kernel ("[vdso]").
// The error is ErrExited when that process has ended.
func (f FS) Code(pid uint32, at time.Time) ([]Mapping, error) {
	return within(f, pid, func(d pidDir) ([]Mapping, error) {
		if err := f.checkStart(d, at); err != nil {
			return nil, err
		}
		n := 0
		return d.mappings(func(m *mapLine) bool {
			if m.exec {
				n++
			}
			return m.exec && n <= maxCode
		})
	})
}

// checkStart returns ErrExited if the process started after a time, and so reuses the number. A zero
// time is now.
func (f FS) checkStart(d pidDir, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	s, _, err := d.stat(nil)
	if err != nil {
		return err
	}
	if f.bootTime().Add(time.Duration(s.start) * userTick).After(at.Add(startSlack)) {
		return fmt.Errorf("pid %d: %w", d.pid, ErrExited)
	}
	return nil
}

// OpenPath opens the file of a mapping by its path in the agent's own root, for a process that has
// ended. It returns only the file that was mapped.
func (f FS) OpenPath(m Mapping) (*os.File, error) {
	if m.Deleted || !path.IsAbs(m.Path) {
		return nil, errors.New("it has no path")
	}
	fd, err := openBeneath(unix.AT_FDCWD, m.Path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", m.Path, err)
	}
	o, err := reopenAs(fd, m.Path, m)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", m.Path, err)
	}
	return o.file, nil
}

// OpenIn opens a regular file by its path in the root of a process, and resolves links there. pid 0
// means the agent's own root.
func (f FS) OpenIn(pid uint32, name string) (*os.File, error) {
	if !path.IsAbs(name) {
		return nil, fmt.Errorf("open %s: it has no path", name)
	}
	dir := unix.AT_FDCWD
	if pid != 0 {
		root, err := f.OpenRoot(pid)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		dir = int(root.Fd())
	}
	fd, err := openBeneath(dir, name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	file, err := reopenFile(fd, name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return file, nil
}

// OpenRoot opens the root directory of a process, only for looking names up.
func (f FS) OpenRoot(pid uint32) (*os.File, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return nil, err
	}
	defer d.close()
	fd, err := openRetry(d.fd, "root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, exitedOr(pid, "open "+d.root+"/root", err)
	}
	return os.NewFile(uintptr(fd), d.root+"/root"), nil
}

// VDSO returns the code that the kernel maps into every process, as an ELF file. It reads the
// agent's own copy.
func (f FS) VDSO() ([]byte, error) {
	d := pidDir{root: f.path("self")}
	fd, err := openRetry(unix.AT_FDCWD, d.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", d.root, err)
	}
	d.fd = fd
	defer d.close()
	var at Mapping
	if err := d.eachMapping(func(m *mapLine) {
		if string(m.path) == "[vdso]" {
			at = m.mapping()
		}
	}); err != nil {
		return nil, err
	}
	if at.End-at.Start == 0 || at.End-at.Start > maxVDSO || at.Start > math.MaxInt64 {
		return nil, errors.New("this process has no vdso")
	}
	mem, err := os.Open(d.root + "/mem")
	if err != nil {
		return nil, err
	}
	defer mem.Close()
	b := make([]byte, at.End-at.Start)
	if _, err := mem.ReadAt(b, int64(at.Start)); err != nil {
		return nil, fmt.Errorf("read the vdso: %w", err)
	}
	return b, nil
}
