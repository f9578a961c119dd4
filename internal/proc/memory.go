package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// startSlack is the tolerance of a process's start time, which has the resolution of a tick and
// comes from two readings of a clock.
const startSlack = 2 * userTick

// Memory is the memory of a process at the time of opening. After an exec or the process's end it
// is empty.
type Memory struct {
	f   *os.File
	pid uint32
	buf []byte
}

// Memory opens the memory of the process that had a number at a time (zero: now). The error is
// ErrExited when that process has ended. Close it after use. It is not safe for concurrent use.
func (f FS) Memory(pid uint32, at time.Time) (*Memory, error) {
	d, err := f.openPID(pid)
	if err != nil {
		return nil, err
	}
	defer d.close()
	if err := f.checkStart(d, at); err != nil { // the number may have been reused
		return nil, err
	}
	fd, err := openRetry(d.fd, "mem", unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return nil, exitedOr(pid, "open "+d.root+"/mem", err)
	}
	return &Memory{f: os.NewFile(uintptr(fd), d.root+"/mem"), pid: pid, buf: make([]byte, 512)}, nil
}

// Close closes the memory.
func (m *Memory) Close() error { return m.f.Close() }

// Text returns the bytes at an address up to a zero byte, valid until the next call. The error is
// ErrExited when the memory is gone, and io.EOF if the address is unmapped, or has no zero within
// limit bytes.
func (m *Memory) Text(at uint64, limit int) ([]byte, error) {
	if at > math.MaxInt64 {
		return nil, io.EOF
	}
	n := min(512, limit)
	for {
		if len(m.buf) < n {
			m.buf = make([]byte, n)
		}
		got, err := m.f.ReadAt(m.buf[:n], int64(at))
		if end := bytes.IndexByte(m.buf[:got], 0); end >= 0 {
			return m.buf[:end], nil
		}
		switch {
		case errors.Is(err, io.EOF) && got == 0: // mem returns this after the memory has gone
			return nil, fmt.Errorf("pid %d: %w", m.pid, ErrExited)
		case err != nil, n == limit:
			return nil, io.EOF
		}
		n = min(4*n, limit)
	}
}
