package proc

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrExited means that the process ended while it was read.
var ErrExited = errors.New("the process has ended")

// FS is a mounted proc file system. The zero value is /proc. Its methods are safe for concurrent
// use.
type FS struct {
	// Root is the mount point; empty means /proc.
	Root string
	// Boot is when the machine booted, the origin of start times; zero means that it comes from the
	// kernel's clocks.
	Boot time.Time
	// Offset is Unix time minus CLOCK_MONOTONIC, ns, of the times that callers pass and get. Zero
	// means the offset when this program began: use it with times of time.Now.
	Offset int64
	// Patience is how long a read of a process's maps may take, or all that Scan reads of a process.
	// Zero means 3 s: a fork of a process with much memory delays a read by up to about a second.
	Patience time.Duration
}

// Limits of what is read of one file, in bytes. The kernel's files stay far below. The limits bound
// the memory that a process can make the agent use.
const (
	maxSmall   = 64 << 10
	maxStatus  = 1 << 20 // a process may be in 65,536 groups
	maxCmdline = 64 << 10
	maxStat    = 4 << 20 // /proc/stat has a line per CPU and a number per interrupt
)

func (f FS) root() string {
	if f.Root == "" {
		return "/proc"
	}
	return f.Root
}

func (f FS) patience() time.Duration { return cmp.Or(f.Patience, 3*time.Second) }

func (f FS) path(elem ...string) string {
	return filepath.Join(append([]string{f.root()}, elem...)...)
}

func (f FS) bootTime() time.Time {
	if !f.Boot.IsZero() {
		return f.Boot
	}
	slept := clock(unix.CLOCK_BOOTTIME) - clock(unix.CLOCK_MONOTONIC)
	if f.Offset != 0 {
		return time.Unix(0, f.Offset-int64(slept))
	}
	return began.wall.Add(-began.mono - slept)
}

// began has the times when this program began.
var began = struct {
	wall time.Time
	mono time.Duration
}{time.Now(), clock(unix.CLOCK_MONOTONIC)}

// clock reads a clock that every kernel has.
func clock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t)
	return time.Duration(t.Nano())
}

// KernelRelease returns the version of the running kernel, such as "6.8.0-31-generic", "" if it is
// unknown.
func KernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// pidDir is an open /proc/PID. All reads through it are of one process, even if its number is
// reused.
type pidDir struct {
	fd   int
	root string
	pid  uint32
}

func (f FS) openPID(pid uint32) (pidDir, error) {
	path := f.path(strconv.FormatUint(uint64(pid), 10))
	fd, err := openRetry(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return pidDir{}, exitedOr(pid, "open "+path, err)
	}
	return pidDir{fd: fd, root: path, pid: pid}, nil
}

func (d pidDir) close() { unix.Close(d.fd) }

// read appends name's content to buf, at most limit bytes.
func (d pidDir) read(name string, buf []byte, limit int) ([]byte, error) {
	fd, err := openRetry(d.fd, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return buf, exitedOr(d.pid, "open "+d.root+"/"+name, err)
	}
	defer unix.Close(fd)
	buf, err = readFD(fd, buf, limit)
	if err != nil {
		return buf, exitedOr(d.pid, "read "+d.root+"/"+name, err)
	}
	return buf, nil
}

// alive returns ErrExited when the process has ended and been reaped.
func (d pidDir) alive() error {
	var b [1]byte
	_, err := d.read("stat", b[:0], 1)
	return err
}

// stat reads and parses stat. It reuses buf if it has room, and returns it.
func (d pidDir) stat(buf []byte) (stat, []byte, error) {
	buf, err := d.read("stat", buf[:0], maxSmall)
	if err != nil {
		return stat{}, buf, err
	}
	s, err := parseStat(buf)
	if err != nil {
		err = fmt.Errorf("%s/stat: %w", d.root, err)
	}
	return s, buf, err
}

// link returns the target of the link name.
func (d pidDir) link(name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(d.fd, name, buf)
	if err != nil {
		return "", exitedOr(d.pid, "read link "+d.root+"/"+name, err)
	}
	return string(buf[:n]), nil
}

func openRetry(dir int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func readFD(fd int, buf []byte, limit int) ([]byte, error) {
	start := len(buf)
	for len(buf)-start < limit {
		if len(buf) == cap(buf) {
			buf = append(buf, make([]byte, max(4096, cap(buf)))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):min(cap(buf), start+limit)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return buf, err
		case n == 0:
			return buf, nil
		}
		buf = buf[:len(buf)+n]
	}
	return buf, nil
}

// readFile returns the content of a file that belongs to no process.
func (f FS) readFile(limit int, buf []byte, elem ...string) ([]byte, error) {
	path := f.path(elem...)
	fd, err := openRetry(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	if err != nil {
		return buf, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if buf, err = readFD(fd, buf, limit); err != nil {
		return buf, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return buf, nil
}

// exitedOr replaces the kernel's errors for an ended process by ErrExited.
func exitedOr(pid uint32, doing string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("pid %d: %w", pid, ErrExited)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func isDenied(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

// pids lists the numbers of all processes.
func (f FS) pids() ([]uint32, error) {
	d, err := os.Open(f.root())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", f.root(), err)
	}
	pids := make([]uint32, 0, len(names))
	for _, n := range names {
		if pid, err := strconv.ParseUint(n, 10, 31); err == nil && pid > 0 {
			pids = append(pids, uint32(pid))
		}
	}
	return pids, nil
}
