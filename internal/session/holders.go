package session

import (
	"sync"

	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/tape"
	"ingero/pkg/events"
)

// lockHolders finds the thread that held Python's lock (GIL) when another thread began to wait for
// it. The kernel records the holder's PyThreadState, which leads to the thread. A woken thread has
// a waker that released the lock; a thread whose wait of some ms timed out has none.
type lockHolders struct {
	mem *memories
	raw tapeIO // the raw tape; nil: none

	mu    sync.Mutex
	procs map[uint32]*holders
}

// close forgets all processes.
func (h *lockHolders) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for pid := range h.procs {
		h.drop(pid)
	}
}

// holders has the lock holders of one process.
type holders struct {
	process *python.Process
	tried   bool                     // opening its memory was tried, at the first wait
	walker  *python.Walker           // nil: reading is not permitted, or the process has ended
	done    func()                   // closes walker
	threads map[uint32]events.Thread // by their own thread ids
}

const maxHolders = 1 << 12 // bound on the named threads of a process

// setInterpreter records the interpreter of a process. It is safe for concurrent use.
func (h *lockHolders) setInterpreter(pid uint32, process *python.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(pid)
	if h.procs == nil {
		h.procs = map[uint32]*holders{}
	}
	h.procs[pid] = &holders{process: process, threads: map[uint32]events.Thread{}}
}

// fork gives a child its parent's interpreter. It is safe for concurrent use.
func (h *lockHolders) fork(parent, child uint32) {
	h.mu.Lock()
	of := h.procs[parent]
	h.mu.Unlock()
	if of != nil {
		h.setInterpreter(child, of.process)
	}
}

// forget drops the facts about a process. It is safe for concurrent use.
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

// waits sets the holder in GIL waits that have just ended.
func (h *lockHolders) waits(ws []events.Wait) {
	for i := range ws {
		w := &ws[i]
		if w.Reason != events.ReasonGIL || w.State != events.WaitBlocked || w.Who.TID != 0 {
			continue
		}
		x := h.lookup(w)
		if !x.Known {
			continue
		}
		w.Who = events.Thread{PID: x.PID, TID: x.TID, Name: events.NameOf(x.Comm)}
		if w.Who.TID != 0 {
			w.Flags &^= events.WaitByIRQ
		}
	}
}

// holder is the thread that held the lock.
type holder struct {
	Known    bool // whether the process's interpreter is known
	PID, TID uint32
	Comm     string
}

// lookup returns holder's result, or the answer of a raw tape.
func (h *lockHolders) lookup(w *events.Wait) holder {
	if h.raw == nil {
		return h.holder(w)
	}
	var x holder
	h.raw.answer(tape.Holder, &x, func() { x = h.holder(w) })
	return x
}

// holder finds the thread that held the lock when a wait began.
func (h *lockHolders) holder(w *events.Wait) holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.procs[w.PID]
	if of == nil {
		return holder{}
	}
	if !of.tried {
		of.tried = true
		of.walker, of.done, _ = h.mem.walker(w.PID, of.process)
	}
	who := of.thread(h.mem.fs, w.PID, w.Arg)
	return holder{true, who.PID, who.TID, who.Name.String()}
}

// thread returns the thread of a thread state, the zero Thread if unknown.
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
