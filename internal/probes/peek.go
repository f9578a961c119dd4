package probes

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"ingero/internal/bpf"
	"ingero/internal/proc"
)

// Peeker reads process memory with a BPF iterator, where user space may not
// (kernel.yama.ptrace_scope=3). A read takes some hundred microseconds. It needs Linux 5.18. Its
// methods are safe for concurrent use.
type Peeker struct {
	mu      sync.Mutex
	objects bpf.PeekObjects
	threads *link.Iter
}

// OpenPeeker returns a Peeker. The caller must close it.
func OpenPeeker() (*Peeker, error) {
	p := &Peeker{}
	if err := bpf.LoadPeekObjects(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("read memory with the kernel's help (Linux 5.18): %w", err)
	}
	threads, err := link.AttachIter(link.IterOptions{Program: p.objects.PeekTask})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read memory with the kernel's help: %w", err), p.objects.Close())
	}
	p.threads = threads
	return p, nil
}

// Close closes the iterator.
func (p *Peeker) Close() error { return errors.Join(p.threads.Close(), p.objects.Close()) }

// Process returns the memory of a process.
func (p *Peeker) Process(pid uint32) Peek { return Peek{p, pid} }

// Peek is the memory of a process.
type Peek struct {
	by  *Peeker
	pid uint32
}

// ReadAt reads memory at an address. It returns io.ErrUnexpectedEOF if a part is unreadable, and
// proc.ErrExited if the process does not exist.
func (m Peek) ReadAt(b []byte, at int64) (int, error) {
	done := 0
	for done < len(b) {
		n := min(len(b)-done, len(bpf.PeekPeek{}.Data))
		if err := m.by.read(m.pid, b[done:done+n], uint64(at)+uint64(done)); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

func (p *Peeker) read(pid uint32, b []byte, at uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := bpf.PeekPeek{Tgid: pid, Bytes: uint32(len(b)), At: at}
	if err := p.objects.Peeks.Update(uint32(0), &q, ebpf.UpdateAny); err != nil {
		return err
	}
	visit, err := p.threads.Open()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, visit)
	if err = errors.Join(err, visit.Close()); err != nil {
		return err
	}
	if err := p.objects.Peeks.Lookup(uint32(0), &q); err != nil {
		return err
	}
	switch q.Found {
	case bpf.PeekPeekFoundPEEK_NOBODY:
		return fmt.Errorf("pid %d: %w", pid, proc.ErrExited)
	case bpf.PeekPeekFoundPEEK_PARTLY:
		return io.ErrUnexpectedEOF
	}
	copy(b, q.Data[:])
	return nil
}
