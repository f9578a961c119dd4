package session

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"

	"ingero/internal/decode"
	"ingero/internal/tape"
	"ingero/internal/tick"
)

// lives follows forks, execs, exits and gates. Its methods may be called from any goroutine.
type lives struct {
	kernel kernel
	raw    deck
	clock  decode.Clock
	log    *slog.Logger
	hear   func(e *tick.ProcEvent) bool // passes an event on; false: its process is not traced
	gates  *gates
	work   sync.WaitGroup

	// mu is held while events are taken and passed to hear, so that they are passed in order.
	mu        sync.Mutex
	pending   []tick.ProcEvent
	heard     [][]byte // the records of pending, for a raw tape
	exits     exits
	malformed uint64
}

func newLives(kernel kernel, raw deck, clock decode.Clock, log *slog.Logger, hear func(*tick.ProcEvent) bool, gates *gates) *lives {
	return &lives{kernel: kernel, raw: raw, clock: clock, log: log, hear: hear, gates: gates}
}

// start follows what happens until wait returns [os.ErrClosed], and calls hurry when something
// has. It opens gates until ctx ends.
func (l *lives) start(ctx context.Context, wait func() error, hurry func()) {
	l.gates.start(ctx)
	l.work.Go(func() {
		for {
			if err := wait(); err != nil {
				if !errors.Is(err, os.ErrClosed) {
					l.log.Warn("process events are read by the clock alone", "error", err)
				}
				return
			}
			for l.drain() {
				hurry()
			}
		}
	})
}

// close takes the events that are left, once wait has returned [os.ErrClosed], and opens all gates.
func (l *lives) close() {
	l.work.Wait()
	for l.drain() {
	}
	l.gates.close()
}

// drain takes in what was told so far, and tells whether
// there was anything. What happened before a call that was drained is there by then.
func (l *lives) drain() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kernel.DrainLives(func(record []byte) {
		if l.raw != nil {
			record = l.raw.copied(record)
		}
		e, ok := l.decode(record)
		switch {
		case !ok:
		case e.Kind == decode.Gate:
			l.gates.add(e)
		case l.hear(&e):
			l.pending = append(l.pending, e)
			if l.raw != nil {
				l.heard = append(l.heard, record)
			}
		}
	}) > 0
}

// decode decodes a record. mu is held.
func (l *lives) decode(record []byte) (tick.ProcEvent, bool) {
	e, err := decode.Proc(record, l.clock)
	if err != nil {
		l.malformed++
	}
	return e, err == nil
}

// deliver appends to a batch the events that are due: an exit waits until the calls before it
// are read. over tells whether all awaited processes have ended; it is called while no other
// event can come in, and its answer is returned, or that of the tape.
func (l *lives) deliver(b *tick.Batch, over func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.raw != nil {
		l.tape()
	}
	read, made := l.kernel.Waiting()
	b.Procs = l.exits.pass(b.Procs, l.pending, read, made)
	l.pending = l.pending[:0]
	is := over()
	if l.raw != nil {
		l.raw.answer(tape.Over, &is, func() {})
	}
	return is
}

// tape notes the records that pending was made of, or makes it of those of the tape.
// mu is held.
func (l *lives) tape() {
	l.raw.lives(l.heard, func(record []byte) {
		if e, ok := l.decode(record); ok {
			l.pending = append(l.pending, e)
		}
	})
	l.heard = l.heard[:0]
}

// rest appends all exits that are held.
func (l *lives) rest(b *tick.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Procs = l.exits.rest(b.Procs)
}

// lost returns how many records could not be decoded.
func (l *lives) lost() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.malformed
}

// exits are those of processes whose last calls may not have been read yet.
type exits []heldExit

type heldExit struct {
	tick.ProcEvent
	until uint64 // where the ring of calls ended when it was heard of
}

// pass appends to lives those that were heard of now, and the exits whose processes' calls
// have all been read: what is known of a process must not go before them. read and made are
// up to where the ring of calls has been read, and written by the time that they were heard of.
func (x *exits) pass(lives, now []tick.ProcEvent, read, made uint64) []tick.ProcEvent {
	for len(*x) > 0 && (*x)[0].until <= read {
		lives = append(lives, (*x)[0].ProcEvent)
		*x = (*x)[1:]
	}
	for _, e := range now {
		switch {
		case e.Kind == tick.ProcExited && made > read:
			*x = append(*x, heldExit{e, made})
			continue
		case e.Kind == tick.ProcForked && slices.ContainsFunc(*x, func(h heldExit) bool { return h.PID == e.Peer }):
			lives = x.rest(lives) // its number has a new process
		}
		lives = append(lives, e)
	}
	return lives
}

// rest appends to lives all exits that are left.
func (x *exits) rest(lives []tick.ProcEvent) []tick.ProcEvent {
	for _, h := range *x {
		lives = append(lives, h.ProcEvent)
	}
	*x = nil
	return lives
}
