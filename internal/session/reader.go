package session

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// reader reads calls and waits from the kernel's rings, and counts from its maps. Its methods are
// for the polling goroutine, except start, hurry and wait.
type reader struct {
	fs        proc.FS
	kernel    kernel
	raw       tapeIO
	clock     decode.Clock
	wake      chan struct{} // requests an urgent poll
	codes     [][]byte      // Python code objects, until their stack arrives
	ended     []tick.Thread // threads that have ended since the last tick
	names     names         // names of threads
	accounts  accounts
	malformed uint64 // malformed records
	work      sync.WaitGroup
}

// names caches the names of threads, so that each is read once. A thread that renames itself keeps
// its first name until it ends.
type names map[nameKey]string

// nameKey identifies a thread: thread ids are reused.
type nameKey struct {
	tid   uint32
	since int64
}

// batchLimit bounds the calls of one batch, and so the memory of a session.
const batchLimit = 8192

func newReader(kernel kernel, raw tapeIO, clock decode.Clock) *reader {
	return &reader{kernel: kernel, raw: raw, clock: clock, wake: make(chan struct{}, 1), names: names{}, accounts: accounts{}}
}

// start requests a poll whenever the ring is half full, until pressure returns [os.ErrClosed].
func (r *reader) start(pressure func() error, log *slog.Logger) {
	r.work.Go(func() {
		for {
			if err := pressure(); err != nil {
				if !errors.Is(err, os.ErrClosed) {
					log.Warn("the ring is read by the clock alone", "error", err)
				}
				return
			}
			r.pollNow()
		}
	})
}

// wait waits until start's pressure has returned [os.ErrClosed].
func (r *reader) wait() { r.work.Wait() }

// pollNow requests an immediate poll.
func (r *reader) pollNow() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// read appends the ring's records to a batch, and reports whether there may be more.
func (r *reader) read(b *tick.Batch) (more bool) {
	ended := len(b.Ended)
	b.PyCodes = r.codes
	n := r.kernel.Drain(batchLimit, func(record []byte) {
		if err := decode.Record(b, record, r.clock); err != nil {
			r.malformed++
		}
	})
	r.codes, b.PyCodes = b.PyCodes, nil
	r.ended = append(r.ended, b.Ended[ended:]...)
	return n == batchLimit
}

// slow sets the duration from which on calls of an operation are slow.
func (r *reader) slow(op events.Op, d time.Duration) error {
	rows := r.kernel.Rows()
	for i := range rows { // a row is too large to copy
		if rows[i].Op == op {
			return r.kernel.SetSlow(i, d)
		}
	}
	return nil
}

// counts fills the operations of a tick.
func (r *reader) counts(t *tick.Tick) error {
	if err := r.kernel.Counts(r.accounts.update); err != nil {
		return err
	}
	rows := r.kernel.Rows()
	n := 0
	for _, ops := range r.accounts {
		n += len(ops)
	}
	t.Ops = slices.Grow(t.Ops, n)
	for pid, ops := range r.accounts {
		for row, x := range ops {
			t.Ops = append(t.Ops, tick.Op{PID: pid, Op: rows[row].Op, Sum: x.sum, Hist: x.hist})
		}
	}
	return nil
}

// any reports whether a process has made calls.
func (r *reader) any() bool { return len(r.names) > 0 || len(r.accounts) > 0 }

// threads fills the accounts of the threads, including those that have ended since the last tick.
// complete is called for living ones.
func (r *reader) threads(t *tick.Tick, complete func(*tick.Thread)) error {
	t.Threads = append(slices.Grow(t.Threads, len(r.ended)+len(r.names)), r.ended...)
	r.ended = r.ended[:0]
	known := make(names, len(r.names))
	err := r.kernel.Threads(func(tid uint32, s *probes.ThreadState, now uint64) {
		x := decode.Thread(tid, s, now, r.clock)
		k := nameKey{tid, x.Since}
		name, ok := r.names[k]
		if !ok {
			fill(r.raw, tape.Name, &name, func() { name = r.fs.ThreadName(x.PID, tid) })
		}
		known[k] = name
		x.Comm = name
		complete(&x)
		t.Threads = append(t.Threads, x)
	})
	r.names = known
	slices.SortFunc(t.Threads, tick.ByThread)
	return err
}

// drops fills the losses, including the malformed records of other rings.
func (r *reader) drops(t *tick.Tick, malformed uint64) (err error) {
	t.Drops, err = r.kernel.Drops()
	t.Drops = append(t.Drops, tick.Drop{Reason: "malformed-record", Count: r.malformed + malformed})
	return err
}

// release deletes the kernel's counts of ended processes, and returns the processes that made
// calls.
func (r *reader) release(ended []uint32) (called []uint32, err error) {
	for _, pid := range ended {
		if r.accounts.closeProcess(pid) {
			called = append(called, pid)
		}
	}
	if len(called) > 0 {
		err = r.kernel.Forget(called...)
	}
	return called, err
}

// forget drops the counts of processes.
func (r *reader) forget(pids []uint32) {
	for _, pid := range pids {
		delete(r.accounts, pid)
	}
}

// failedLaunches returns the number of failed calls among those that two libraries see.
func (r *reader) failedLaunches() (n uint64) {
	rows := r.kernel.Rows()
	for _, ops := range r.accounts {
		for row, x := range ops {
			if probes.Doubled(&rows[row]) {
				n += x.sum.Errors
			}
		}
	}
	return n
}
