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

// lives follows forks, execs, exits and gates. Its methods are safe for concurrent use.
type lives struct {
	kernel kernel
	raw    tapeIO
	clock  decode.Clock
	log    *slog.Logger
	hear   func(e *tick.ProcEvent) bool // passes an event on; false: its process is not traced
	gates  *gates
	work   sync.WaitGroup

	// mu is held while events are read and passed to hear, which keeps them in order.
	mu        sync.Mutex
	pending   []tick.ProcEvent
	recorded  [][]byte // records of pending, for a raw tape
	exits     exits
	malformed uint64
}

func newLives(kernel kernel, raw tapeIO, clock decode.Clock, log *slog.Logger, hear func(*tick.ProcEvent) bool, gates *gates) *lives {
	return &lives{kernel: kernel, raw: raw, clock: clock, log: log, hear: hear, gates: gates}
}

// start reads events until wait returns [os.ErrClosed], and calls hurry after each. It opens gates
// until ctx ends.
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

// close reads the remaining events, once wait has returned [os.ErrClosed], and opens all gates.
func (l *lives) close() {
	l.work.Wait()
	for l.drain() {
	}
	l.gates.close()
}

// drain reads the waiting events, and reports whether there were any. It reads every event that
// precedes a drained call.
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
				l.recorded = append(l.recorded, record)
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

// deliver appends the due events to a batch: an exit waits until earlier calls have been read. over
// reports whether all awaited processes have ended. It is called while no event can arrive. deliver
// returns its result, or the tape's.
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

// tape records the records of pending, or fills pending from those of the tape. mu is held.
func (l *lives) tape() {
	l.raw.lives(l.recorded, func(record []byte) {
		if e, ok := l.decode(record); ok {
			l.pending = append(l.pending, e)
		}
	})
	l.recorded = l.recorded[:0]
}

// rest appends all held exits.
func (l *lives) rest(b *tick.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.Procs = l.exits.rest(b.Procs)
}

// lost returns the number of malformed records.
func (l *lives) lost() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.malformed
}

// exits holds the exits of processes whose last calls may still be unread.
type exits []pendingExit

type pendingExit struct {
	tick.ProcEvent
	until uint64 // end of the call ring when the exit was read
}

// pass appends to lives the new events, and the held exits whose processes' calls have all been
// read: facts about a process must outlive its calls. read is the position up to which the call
// ring has been read, made the position up to which it had been written.
func (x *exits) pass(lives, now []tick.ProcEvent, read, made uint64) []tick.ProcEvent {
	for len(*x) > 0 && (*x)[0].until <= read {
		lives = append(lives, (*x)[0].ProcEvent)
		*x = (*x)[1:]
	}
	for _, e := range now {
		switch {
		case e.Kind == tick.ProcExited && made > read:
			*x = append(*x, pendingExit{e, made})
			continue
		case e.Kind == tick.ProcForked && slices.ContainsFunc(*x, func(h pendingExit) bool { return h.PID == e.Peer }):
			lives = x.rest(lives) // its number was reused
		}
		lives = append(lives, e)
	}
	return lives
}

// rest appends all held exits to lives.
func (x *exits) rest(lives []tick.ProcEvent) []tick.ProcEvent {
	for _, h := range *x {
		lives = append(lives, h.ProcEvent)
	}
	*x = nil
	return lives
}
