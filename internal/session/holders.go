package session

import (
	"sync"

	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/tape"
	"ingero/pkg/events"
)

// lockHolders says who had Python's lock when a thread began to wait for it. The kernel
// knows the PyThreadState of who had, which says whose it is. A thread that is woken knows
// who let go of the lock; one that has waited its few milliseconds in vain does not.
type lockHolders struct {
	mem *memories
	raw deck // the raw tape; nil: there is none

	mu    sync.Mutex
	procs map[uint32]*holders
}

// close forgets all.
func (h *lockHolders) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for pid := range h.procs {
		h.drop(pid)
	}
}

// holders are those of one process.
type holders struct {
	of      *python.Process
	tried   bool                     // its memory was opened: at the first wait
	walker  *python.Walker           // nil: nobody may read it, or it has ended
	done    func()                   // closes that
	threads map[uint32]events.Thread // by what they call themselves
}

const maxHolders = 1 << 12 // threads whose names are kept, of a process

// know takes the interpreter of a process. It is for any goroutine.
func (h *lockHolders) know(pid uint32, of *python.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(pid)
	if h.procs == nil {
		h.procs = map[uint32]*holders{}
	}
	h.procs[pid] = &holders{of: of, threads: map[uint32]events.Thread{}}
}

// fork says that a process has what its parent has. It is for any goroutine.
func (h *lockHolders) fork(parent, child uint32) {
	h.mu.Lock()
	of := h.procs[parent]
	h.mu.Unlock()
	if of != nil {
		h.know(child, of.of)
	}
}

// forget drops what is known of a process. It is for any goroutine.
func (h *lockHolders) forget(pid uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(pid)
}

// drop forgets a process. mu is held.
func (h *lockHolders) drop(pid uint32) {
	if old := h.procs[pid]; old != nil && old.walker != nil {
		old.done()
	}
	delete(h.procs, pid)
}

// waits completes waits that have just ended.
func (h *lockHolders) waits(ws []events.Wait) {
	for i := range ws {
		w := &ws[i]
		if w.Reason != events.ReasonGIL || w.State != events.WaitBlocked || w.Who.TID != 0 {
			continue
		}
		x := h.asked(w)
		if !x.Known {
			continue
		}
		w.Who = events.Thread{PID: x.PID, TID: x.TID, Name: events.NameOf(x.Comm)}
		if w.Who.TID != 0 {
			w.Flags &^= events.WaitByIRQ
		}
	}
}

// holder is who had the lock.
type holder struct {
	Known    bool // the process's interpreter is
	PID, TID uint32
	Comm     string
}

// asked is holder, or the answer of a raw tape.
func (h *lockHolders) asked(w *events.Wait) holder {
	if h.raw == nil {
		return h.holder(w)
	}
	var x holder
	h.raw.answer(tape.Holder, &x, func() { x = h.holder(w) })
	return x
}

// holder looks for who had the lock when a wait began.
func (h *lockHolders) holder(w *events.Wait) holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.procs[w.PID]
	if of == nil {
		return holder{}
	}
	if !of.tried {
		of.tried = true
		of.walker, of.done, _ = h.mem.walker(w.PID, of.of)
	}
	who := of.thread(h.mem.fs, w.PID, w.Arg)
	return holder{true, who.PID, who.TID, who.Name.String()}
}

// thread returns the thread of a thread state, the zero Thread if it is not known.
func (of *holders) thread(fs proc.FS, pid uint32, state uint64) events.Thread {
	if of.walker == nil {
		return events.Thread{}
	}
	own, err := of.walker.Thread(state)
	if err != nil {
		return events.Thread{}
	}
	known, ok := of.threads[own]
	if !ok {
		tid, err := fs.ThreadCalled(pid, own)
		if err != nil {
			return events.Thread{}
		}
		known = events.Thread{PID: pid, TID: tid, Name: events.NameOf(fs.ThreadName(pid, tid))}
		if len(of.threads) >= maxHolders {
			clear(of.threads)
		}
		of.threads[own] = known
	}
	return known
}
