package proc

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Device is a character device.
type Device struct{ Major, Minor uint32 }

// Opened is a process with the devices that it has open.
type Opened struct {
	PID     uint32
	Devices []Device
}

// Bounds of WithOpen.
const (
	maxOpenOfOne = 1 << 12 // open files of a process
	maxOpenOfAll = 1 << 17 // processes and open files
)

// WithOpen lists the processes that have one of some character devices or more open, except those to skip, the highest
// PID first. unread counts the processes whose open files could not all be read, or were not all looked at: too many. Such
// a process is listed, too, if one of the devices was found. With all devices, it is not counted.
//
// It opens none of the files. A user can make a file system of their own that does not answer, and call a file of it
// /dev/nvidia0: so WithOpen asks no file system, and believes the device number rather than the name.
func (f FS) WithOpen(devices []Device, skip map[uint32]bool) (found []Opened, unread uint64, err error) {
	pids, err := f.pids()
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(pids, func(a, b uint32) int { return cmp.Compare(b, a) })
	left := maxOpenOfAll
	for i, pid := range pids {
		if skip[pid] {
			continue
		}
		if left <= 0 {
			return found, unread + uint64(len(pids)-i), nil
		}
		has, n, err := f.opened(pid, devices, min(left, maxOpenOfOne), charDevice)
		left -= n + 1
		if len(has) > 0 {
			found = append(found, Opened{pid, has})
		}
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) { // else it has ended
			unread++
		}
	}
	return found, unread, nil
}

var errTooManyOpen = errors.New("too many open files")

// opened returns which devices a process has open, and at how many open files it looked, at most at most. device
// returns the device of an open file by its directory and name. Without all devices the error is that of the first file
// whose device could not be read, or errTooManyOpen if there are more files. Files that were closed meanwhile are none.
func (f FS) opened(pid uint32, devices []Device, most int, device func(dir int, name string) (Device, error)) (has []Device, n int, err error) {
	dir, err := os.Open(f.path(strconv.FormatUint(uint64(pid), 10), "fd"))
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = dir.Close() }() // read-only
	names, err := dir.Readdirnames(most)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	missing, unread := slices.Clone(devices), error(nil)
	for n, name := range names {
		d, err := device(int(dir.Fd()), name)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			unread = cmp.Or(unread, err) // such as EACCES for a file of another user's FUSE mount
		}
		if at := slices.Index(missing, d); at >= 0 {
			has = append(has, d)
			if missing = slices.Delete(missing, at, at+1); len(missing) == 0 {
				return has, n + 1, nil
			}
		}
	}
	if len(names) == most {
		unread = cmp.Or(unread, errTooManyOpen)
	}
	return has, len(names), unread
}

// charDevice returns the device of an open file, zero if it is none below a directory /dev.
func charDevice(dir int, name string) (Device, error) {
	var target [128]byte // the rest of a longer path does not matter
	n, err := unix.Readlinkat(dir, name, target[:])
	if err != nil || !strings.Contains(string(target[:n]), "/dev/") {
		return Device{}, err
	}
	var x unix.Statx_t // DONT_SYNC: the answer of a file system in user space (FUSE) is not waited for
	if err := unix.Statx(dir, name, unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &x); err != nil || x.Mode&unix.S_IFMT != unix.S_IFCHR {
		return Device{}, err
	}
	return Device{x.Rdev_major, x.Rdev_minor}, nil
}
