package proc

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// ReadAt reads memory at an address. The error is ErrExited when the memory is gone, and
// io.ErrUnexpectedEOF if part of it is unreadable. Unlike Text it is safe for concurrent use.
func (m *Memory) ReadAt(b []byte, at int64) (int, error) {
	n, err := m.f.ReadAt(b, at)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && n == 0:
		return 0, fmt.Errorf("pid %d: %w", m.pid, ErrExited)
	case errors.Is(err, unix.EIO), errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// VM reads the memory of a process by its number. It serves where /proc/PID/mem cannot be opened,
// since a security module may allow one and refuse the other.
type VM uint32

// ReadAt reads memory at an address, as [Memory.ReadAt] does.
func (v VM) ReadAt(b []byte, at int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(int(v), local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return 0, fmt.Errorf("pid %d: %w", v, ErrExited)
	case errors.Is(err, unix.EFAULT), err == nil && n < len(b):
		return max(n, 0), io.ErrUnexpectedEOF
	}
	return max(n, 0), err
}
