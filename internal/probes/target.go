package probes

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
	"ingero/internal/python"
)

// Target says how a process is traced.
type Target struct {
	Follow    bool // its children too
	EntryOnly bool // a return probe would harm it
	Gate      bool // stop it when it maps a CUDA library
}

// Trace adds a process to those that are traced, or changes how it is. The first
// has the programs of the ledger and of the host attached: until then nothing pays
// for them.
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

// target lets the programs know of a process.
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

// LaunchesEntryOnly has the launches of a traced process counted at their entry only,
// or watched to their return again, from its threads' next calls on. It ends with the
// process. Launches that are open return as they would have.
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

// Traced tells whether a process is among the targets.
func (t *Tracer) Traced(pid uint32) bool {
	var v bpf.IngeroTarget
	return t.objects.Targets.Lookup(pid, &v) == nil
}

// Untrace ends the tracing of a process. Its counts stay until [Tracer.Forget].
func (t *Tracer) Untrace(pid uint32) error {
	for _, m := range []*ebpf.Map{t.objects.Targets, t.objects.Levers, t.objects.PyProcesses} {
		if err := m.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("stop tracing process %d: %w", pid, err)
		}
	}
	return nil
}

// Python lets the programs know where things are in the interpreter of a traced process:
// its stacks have Python frames from then on, and those of its children. It ends with the
// program that runs there. It returns the epoch that marks the process's stacks.
func (t *Tracer) Python(pid uint32, f python.Facts) (epoch uint32, err error) {
	t.mu.Lock()
	t.epochs = t.epochs%pyChild + 1
	f.Epoch = t.epochs
	t.mu.Unlock()
	if err := t.objects.PyProcesses.Put(pid, f); err != nil {
		return 0, fmt.Errorf("tell programs of the interpreter of process %d: %w", pid, err)
	}
	return f.Epoch, nil
}

// ForgetPython takes back what Python told of a process.
func (t *Tracer) ForgetPython(pid uint32) error {
	if err := t.objects.PyProcesses.Delete(pid); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget the interpreter of process %d: %w", pid, err)
	}
	return nil
}

// pyChild is the first of the epochs that the kernel gives: PY_CHILD, less one that
// wraps to 1.
const pyChild = 1<<31 - 1
