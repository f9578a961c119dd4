package session

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/python"
)

// memories opens the memory of processes in the first permitted way: the file in /proc,
// process_vm_readv, or with the kernel's help. Its methods are safe for concurrent use.
type memories struct {
	fs proc.FS

	once   sync.Once
	peeker *probes.Peeker
	err    error
}

// quick opens the memory of a process if a read takes a microsecond or two. The returned function
// closes it.
func (m *memories) quick(pid uint32) (python.Reader, func(), error) {
	file, err := m.fs.Memory(pid, time.Time{})
	if err == nil {
		return file, func() { _ = file.Close() }, nil
	}
	if !denied(err) {
		return nil, nil, err
	}
	// A security module may refuse only the first way. Address 0 is never mapped.
	if _, err := proc.VM(pid).ReadAt(make([]byte, 1), 0); !denied(err) {
		return proc.VM(pid), func() {}, nil
	}
	return nil, nil, fmt.Errorf("the kernel denies reading process memory (kernel.yama.ptrace_scope): %w", err)
}

// walker returns a reader of a process's Python stacks, and a function that closes it. It fails if
// the process has ended, or if reading is not permitted or too slow.
func (m *memories) walker(pid uint32, process *python.Process) (*python.Walker, func(), error) {
	memory, done, err := m.quick(pid)
	if err != nil {
		return nil, nil, err
	}
	w, err := python.NewWalker(python.Target{FS: m.fs, PID: pid, Memory: memory}, process)
	if err != nil {
		done()
		return nil, nil, err
	}
	return w, done, nil
}

// open opens the memory of a process: as quick does, or else by a BPF iterator.
func (m *memories) open(pid uint32) (python.Reader, func(), error) {
	memory, done, err := m.quick(pid)
	if err == nil || !denied(err) {
		return memory, done, err
	}
	m.once.Do(func() { m.peeker, m.err = probes.OpenPeeker() })
	if m.err != nil {
		return nil, nil, fmt.Errorf("%w; %w", err, m.err)
	}
	return m.peeker.Process(pid), func() {}, nil
}

func denied(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// close closes the peeker. No memory can be opened after it.
func (m *memories) close() error {
	m.once.Do(func() {})
	if m.peeker == nil {
		return nil
	}
	return m.peeker.Close()
}
