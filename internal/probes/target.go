package probes

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
	"ingero/internal/python"
)

// Target is how a process is traced.
type Target struct {
	Follow    bool // trace its children too
	EntryOnly bool // a return probe would harm it
	Gate      bool // stop it when it maps a CUDA library
}

// Trace adds a process to the traced ones, or changes how it is traced. The first call attaches the
// programs of the ledger and of the host, so that nothing pays for them before.
func (t *Tracer) Trace(pid uint32, how Target) error {
	t.first.Do(func() {
		if t.ledger {
			t.schedErr = t.attachBase(ledgerPrograms, &t.base)
			t.addClocks()
		}
		t.attachHost()
	})
	if t.schedErr != nil {
		return t.schedErr
	}
	return t.target(pid, how)
}

// target adds a process to the programs' targets.
func (t *Tracer) target(pid uint32, how Target) error {
	v := bpf.IngeroTarget{}
	if how.Follow {
		v.Follow = 1
	}
	if how.EntryOnly {
		v.Flags |= uint32(bpf.IngeroTargetFlagsTARGET_ENTRY_ONLY)
	}
	if how.Gate {
		v.Flags |= uint32(bpf.IngeroTargetFlagsTARGET_GATE)
	}
	if err := t.objects.Targets.Put(pid, v); err != nil {
		return fmt.Errorf("trace process %d: %w", pid, err)
	}
	return nil
}

// CountOnly makes a traced process entry-only, as [Target] does. Threads that have made calls before
// keep their return probes.
func (t *Tracer) CountOnly(pid uint32) error {
	var v bpf.IngeroTarget
	err := t.objects.Targets.Lookup(pid, &v)
	if err == nil && v.Flags&uint32(bpf.IngeroTargetFlagsTARGET_ENTRY_ONLY) == 0 {
		v.Flags |= uint32(bpf.IngeroTargetFlagsTARGET_ENTRY_ONLY)
		err = t.objects.Targets.Update(pid, v, ebpf.UpdateExist)
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // otherwise it has ended
		return fmt.Errorf("count calls of process %d at entry only: %w", pid, err)
	}
	return nil
}

// LaunchesEntryOnly switches launches of a traced process between counting at entry only and
// timing, from its threads' next calls on. It ends with the process. Open launches return normally.
func (t *Tracer) LaunchesEntryOnly(pid uint32, on bool) error {
	var err error
	if on {
		err = t.objects.Levers.Put(pid, uint32(1))
	} else if err = t.objects.Levers.Delete(pid); errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("count launches of process %d at entry only (%v): %w", pid, on, err)
	}
	return t.leversChanged()
}

// Traced reports whether a process is a target.
func (t *Tracer) Traced(pid uint32) bool {
	var v bpf.IngeroTarget
	return t.objects.Targets.Lookup(pid, &v) == nil
}

// Untrace stops tracing a process. Its counts stay until [Tracer.Forget].
func (t *Tracer) Untrace(pid uint32) error {
	for _, m := range []*ebpf.Map{t.objects.Targets, t.objects.Levers, t.objects.PyProcesses} {
		if err := m.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("stop tracing process %d: %w", pid, err)
		}
	}
	return nil
}

// Python gives the programs the offsets of a traced process's interpreter: from then on its stacks,
// and those of its children, have Python frames. That ends with the process's program. Python
// returns the epoch that marks the process's stacks.
func (t *Tracer) Python(pid uint32, f python.Facts) (epoch uint32, err error) {
	t.mu.Lock()
	t.epochs = t.epochs%pyChild + 1
	f.Epoch = t.epochs
	t.mu.Unlock()
	if err := t.objects.PyProcesses.Put(pid, f); err != nil {
		return 0, fmt.Errorf("write the interpreter of process %d: %w", pid, err)
	}
	return f.Epoch, nil
}

// ForgetPython removes a process's interpreter.
func (t *Tracer) ForgetPython(pid uint32) error {
	if err := t.objects.PyProcesses.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete the interpreter of process %d: %w", pid, err)
	}
	return nil
}

// pyChild is the first epoch that the kernel assigns: PY_CHILD, less one that wraps to 1.
const pyChild = 1<<31 - 1

// openGates makes the programs stop no process any more, and waits for those that run: one may
// have stopped a process and not yet written its event. Closing the program's link is not enough,
// since it does not wait, and a child between fork and exec has a copy of the link.
func (t *Tracer) openGates() error {
	t.mu.Lock()
	gate := t.programs[bpf.IngeroProgGate]
	done := gate == nil || t.stopped
	t.mu.Unlock()
	if done {
		return nil
	}
	if err := errors.Join(t.objects.GatesOpen.Set(uint32(1)), awaitPrograms()); err != nil {
		return fmt.Errorf("open the gates: %w", err)
	}
	return nil
}

// awaitPrograms waits until all programs that run when it is called have ended. The kernel does so
// when an entry of a map of maps changes.
func awaitPrograms() error {
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	outer, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner})
	if err != nil {
		return err
	}
	defer func() { _ = outer.Close() }()
	entry, err := ebpf.NewMap(inner)
	if err != nil {
		return err
	}
	defer func() { _ = entry.Close() }()
	return outer.Put(uint32(0), entry)
}
