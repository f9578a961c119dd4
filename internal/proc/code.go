package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of what is read of a process's code.
const (
	maxCode = 1 << 15 // mappings of one process
	maxVDSO = 1 << 18 // bytes; two to five pages in use
)

// Code lists the executable mappings of a process that was there at a time, in order of
// address: of files, of memory that has no file (no Path: code made at run time), and
// those that the kernel made ("[vdso]"). The error is ErrGone when it has ended.
func (f FS) Code(pid uint32, at time.Time) ([]Mapping, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return nil, err
	}
	defer d.close()
	if err := f.was(d, at); err != nil {
		return nil, err
	}
	var out []Mapping
	err = d.eachMapping(func(m *mapLine) {
		if m.exec && len(out) < maxCode {
			out = append(out, m.mapping())
		}
	})
	return out, err
}

// was returns ErrGone if the process has the number of one that was there at a time.
func (f FS) was(d pidDir, at time.Time) error {
	buf, err := d.read("stat", nil, maxSmall)
	if err != nil {
		return err
	}
	s, err := parseStat(buf)
	if err != nil {
		return fmt.Errorf("%s/stat: %w", d.root, err)
	}
	if f.bootTime().Add(time.Duration(s.start) * userTick).After(at.Add(startSlack)) {
		return fmt.Errorf("pid %d: %w", d.pid, ErrGone)
	}
	return nil
}

// VDSO returns the code that the kernel maps into every process, an ELF file: this
// process's own.
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
