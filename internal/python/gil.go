package python

import (
	"errors"
	"fmt"
)

// GIL is the lock of an interpreter.
type GIL struct {
	At     uint64 // address
	Holder uint32 // number, in its PID namespace, of the thread that holds the lock, 0: none or unknown
}

// gilWaited is the size of what waiters block on: a condition, and the mutex right behind it.
const gilWaited = gilMutex + mutexBytes - gilCond

// Waits reports whether a futex address belongs to the lock: its waiters block on its condition or
// its mutex.
func (g GIL) Waits(futex uint64) bool { return futex-g.At-gilCond < gilWaited }

// waitedFor sets the address on which threads wait for the main interpreter's lock. Without it, the
// waits are those for some lock.
func (p *Process) waitedFor(t Target) {
	p.Facts.GIL = 0
	w, err := NewWalker(t, p)
	if err != nil {
		return
	}
	if locks, err := w.GILs(); err == nil && len(locks) == 1 {
		p.Facts.GIL = locks[0].At + gilCond
	}
}

var errGIL = errors.New("the interpreter's lock was not found where expected")

// GILs lists the locks of a process, one for each interpreter with its own.
func (w *Walker) GILs() ([]GIL, error) {
	f, off := &w.process.Facts, w.process.off
	threads, err := w.memory.threads(f, off.tsNative)
	if err != nil {
		return nil, err
	}
	var out []GIL
	seen := map[uint64]bool{}
	for _, t := range threads {
		at := t.interp + uint64(off.gil)
		switch off.gilLocation {
		case gilInRuntime:
			at = f.Runtime + uint64(off.gil)
		case gilByPointer:
			if at, err = w.memory.word(at); err != nil {
				return nil, fmt.Errorf("%w: %w", errGIL, err)
			}
		}
		if seen[at] {
			continue
		}
		seen[at] = true
		g := GIL{At: at}
		if g.Holder, err = w.holder(at, threads); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// holder returns the thread that holds a lock. last_holder stays set after a release, so holder
// reads locked too.
func (w *Walker) holder(at uint64, threads []threadState) (uint32, error) {
	var b [gilLocked + 8]byte
	if err := w.memory.read(b[:], at); err != nil {
		return 0, fmt.Errorf("%w: %w", errGIL, err)
	}
	o := object{b: b[:]}
	locked, last := o.half(gilLocked), o.word(gilHolder)
	if locked > 1 && int32(locked) != -1 {
		return 0, fmt.Errorf("%w: locked is %d", errGIL, locked)
	}
	if locked != 1 || last == 0 {
		return 0, nil
	}
	for _, t := range threads {
		if t.at == last {
			return w.number(t), nil
		}
	}
	return 0, nil
}
