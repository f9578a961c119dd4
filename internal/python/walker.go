package python

import "fmt"

// Walker takes Python stacks from user space, for where the kernel cannot. The process runs
// meanwhile: a stack is correct only if its thread stands still, for example while it waits for the
// GPU.
type Walker struct {
	process *Process
	memory  memory
	tid     uint64 // offset of a thread's number in the C library, 0: unknown
}

// NewWalker returns a Walker for a process that Find has found.
func NewWalker(t Target, p *Process) (*Walker, error) {
	w := &Walker{process: p, memory: memory{t.Memory}}
	if p.off.tsNative == 0 {
		mapped, err := t.FS.Maps(t.PID, true)
		if err != nil {
			return nil, err
		}
		at, ok := t.tidOffset(mapped)
		if !ok {
			return nil, fmt.Errorf("%w: neither Python nor the C library identifies them", ErrThreads)
		}
		w.tid = at
	}
	return w, nil
}

// Walk takes the stack of a thread, innermost frame first. tid is the thread's number in its own
// PID namespace.
func (w *Walker) Walk(tid uint32) ([]Frame, End, error) {
	threads, err := w.memory.threads(&w.process.Facts, w.process.off.tsNative)
	if err != nil {
		return nil, EndFault, err
	}
	top := uint64(0)
	for _, t := range threads {
		if t.top == 0 || w.number(t) != tid {
			continue
		}
		if top != 0 {
			return nil, EndAmbiguous, nil
		}
		top = t.top
	}
	if top == 0 {
		return nil, EndNoThread, nil
	}
	frames, end := w.memory.frames(&w.process.Facts, top)
	return frames, end, nil
}

// Thread returns the number, in its PID namespace, of the thread with the thread state at an
// address.
func (w *Walker) Thread(at uint64) (uint32, error) {
	l, native := &w.process.Facts.Layout, w.process.off.tsNative
	o := object{b: make([]byte, max(l.TsBytes, native+8))}
	if err := w.memory.read(o.b, at); err != nil {
		return 0, err
	}
	t := threadState{at: at, id: o.word(l.TsID)}
	if err := w.memory.verifyID(&w.process.Facts, t.id); err != nil {
		return 0, err
	}
	if native != 0 {
		t.native = o.word(native)
	}
	tid := w.number(t)
	if tid == 0 {
		return 0, fmt.Errorf("%w: a thread state without a thread", ErrThreads)
	}
	return tid, nil
}

// number returns a thread's number in its PID namespace, 0: unknown.
func (w *Walker) number(t threadState) uint32 {
	if w.tid == 0 {
		return uint32(t.native)
	}
	word, err := w.memory.word(t.id + w.tid)
	if err != nil {
		return 0
	}
	return uint32(word)
}
