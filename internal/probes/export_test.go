package probes

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ingero/internal/bpf"
)

// SetThread replaces the kernel's data on a thread.
func (t *Tracer) SetThread(tid uint32, s *ThreadState) error {
	return t.objects.Threads.Update(tid, s, ebpf.UpdateExist)
}

// QueueThread makes a thread wait for the first CPU.
func (t *Tracer) QueueThread(tid uint32) error {
	var s ThreadState
	if err := t.objects.Threads.Lookup(tid, &s); err != nil {
		return err
	}
	s.Clock.State, s.Clock.Cpu, s.Clock.Queued = uint32(bpf.IngeroWaitStateWAIT_RUNNABLE), 0, 1
	cpu := make([]byte, t.objects.Cpus.ValueSize())
	cpu[0] = 1 // waiters
	return errors.Join(t.objects.Cpus.Put(uint32(0), cpu), t.SetThread(tid, &s))
}

// Waiters returns the number of threads that wait for the first CPU.
func (t *Tracer) Waiters() (uint32, error) {
	cpu, err := t.objects.Cpus.LookupBytes(uint32(0))
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(cpu), nil
}

// TakeFreeSlots takes all free slots of the table of counts.
func (t *Tracer) TakeFreeSlots() (slots []uint32, err error) {
	for {
		var slot uint32
		if err := t.objects.FreeSlots.LookupAndDelete(nil, &slot); err != nil {
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				err = nil
			}
			return slots, err
		}
		slots = append(slots, slot)
	}
}

// FreeSlot makes a slot of the table of counts free.
func (t *Tracer) FreeSlot(slot uint32) error { return t.objects.FreeSlots.Put(nil, slot) }

// HoldLinks keeps the present links of a library, as a process does that is being started, also when
// they are closed here. release lets go of them.
func (a *Attached) HoldLinks() (release func() error, err error) {
	var held []*os.File
	release = func() (err error) {
		for _, f := range held {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	for _, p := range a.parts {
		for _, of := range p.links {
			for _, l := range of {
				f, ok := l.(*os.File)
				if !ok { // no place is probed
					continue
				}
				fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
				if err != nil {
					return nil, errors.Join(err, release())
				}
				held = append(held, os.NewFile(uintptr(fd), f.Name()))
			}
		}
	}
	return release, nil
}
