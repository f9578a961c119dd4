package session

import (
	"sync"
	"time"

	"ingero/internal/python"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lockHolders finds the thread that held Python's lock (GIL) when another thread began to wait for
// it. The kernel records the holder's PyThreadState, which leads to the thread. A woken thread has
// a waker that released the lock; a thread whose wait of some ms timed out has none.
//
// A read of a process's memory may hang: the process may keep its address space locked, or map a file of
// a file system that does not answer. So another goroutine reads, and the session does not wait for it
// for longer than patience.
type lockHolders struct {
	mem      *memories
	raw      tapeIO // the raw tape; nil: none
	find     func(of *holders, pid uint32, state uint64) events.Thread
	patience time.Duration
	timer    *time.Timer   // reused; nil until the first lookup
	reader   *holderReader // nil: none, or it hangs

	mu      sync.Mutex
	procs   map[uint32]*holders
	hanging int    // lookups that hang
	unread  uint64 // waits whose holder was not read because of such lookups
}

// holderPatience bounds the wait for a lookup, which takes some microseconds. A fork of a process with
// much memory delays it by up to about a second.
const holderPatience = 50 * time.Millisecond

// holderReader looks up holders on its own goroutine, one after the other.
type holderReader struct {
	ask    chan holderQuestion
	answer chan events.Thread // with room for one
	left   bool               // the lookup hangs, and nobody waits for it; the holders' mu guards it
}

type holderQuestion struct {
	of    *holders
	pid   uint32
	state uint64 // the holder's PyThreadState
}

func newLockHolders(mem *memories, raw tapeIO) *lockHolders {
	h := &lockHolders{mem: mem, raw: raw, patience: holderPatience, procs: map[uint32]*holders{}}
	h.find = h.thread
	return h
}

// close forgets all processes.
func (h *lockHolders) close() {
	if h.reader != nil {
		close(h.reader.ask)
		h.reader = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for pid := range h.procs {
		h.drop(pid)
	}
}

// drops returns the waits whose holder was not read.
func (h *lockHolders) drops() []tick.Drop {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unread == 0 {
		return nil
	}
	return []tick.Drop{{Reason: "holder-not-read", Count: h.unread}}
}

// holders has the lock holders of one process.
type holders struct {
	process *python.Process
	tried   bool                     // opening its memory was tried, at the first wait
	walker  *python.Walker           // nil: reading is not permitted, or the process has ended
	done    func()                   // closes walker
	threads map[uint32]events.Thread // by their own thread ids
	hangs   bool                     // a lookup hangs, so none is tried
	dropped bool                     // the process was forgotten
}

const maxHolders = 1 << 12 // bound on the named threads of a process

// setInterpreter records the interpreter of a process. It is safe for concurrent use.
func (h *lockHolders) setInterpreter(pid uint32, process *python.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(pid)
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
	if old := h.procs[pid]; old != nil {
		if old.dropped = true; old.walker != nil {
			old.done()
		}
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

// holder finds the thread that held the lock when a wait began. While a lookup hangs in a process, there
// is no other in that process.
func (h *lockHolders) holder(w *events.Wait) holder {
	h.mu.Lock()
	of := h.procs[w.PID]
	if of == nil {
		h.mu.Unlock()
		return holder{}
	}
	if of.hangs || h.hanging >= maxHanging {
		h.unread++
		h.mu.Unlock()
		return holder{Known: true}
	}
	h.mu.Unlock()
	if h.reader == nil {
		h.reader = &holderReader{ask: make(chan holderQuestion), answer: make(chan events.Thread, 1)}
		go h.read(h.reader)
	}
	h.reader.ask <- holderQuestion{of, w.PID, w.Arg}
	who := h.await(of)
	return holder{true, who.PID, who.TID, who.Name.String()}
}

// await returns the reader's answer, the zero Thread if it does not come in time.
func (h *lockHolders) await(of *holders) events.Thread {
	if h.timer == nil {
		h.timer = time.NewTimer(h.patience)
	} else {
		h.timer.Reset(h.patience)
	}
	defer h.timer.Stop()
	select {
	case who := <-h.reader.answer:
		return who
	case <-h.timer.C:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case who := <-h.reader.answer:
		return who
	default:
	}
	of.hangs = true
	h.hanging++
	h.unread++
	h.reader.left = true
	close(h.reader.ask)
	h.reader = nil
	return events.Thread{}
}

// read answers a reader's questions until ask is closed.
func (h *lockHolders) read(r *holderReader) {
	for q := range r.ask {
		who := h.find(q.of, q.pid, q.state)
		h.mu.Lock()
		if r.left {
			q.of.hangs = false
			h.hanging--
		} else {
			r.answer <- who
		}
		h.mu.Unlock()
	}
}

// thread returns the thread of a thread state, the zero Thread if unknown.
func (h *lockHolders) thread(of *holders, pid uint32, state uint64) events.Thread {
	walker := h.walker(of, pid)
	if walker == nil {
		return events.Thread{}
	}
	own, err := walker.Thread(state)
	if err != nil {
		return events.Thread{}
	}
	known, ok := of.threads[own]
	if !ok {
		fs := h.mem.fs
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

// walker returns the reader of a process's stacks, and opens it at the first lookup.
func (h *lockHolders) walker(of *holders, pid uint32) *python.Walker {
	if of.tried {
		return of.walker
	}
	of.tried = true
	walker, done, err := h.mem.walker(pid, of.process)
	if err != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if of.dropped {
		done()
		return nil
	}
	of.walker, of.done = walker, done
	return walker
}
