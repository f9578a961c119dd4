package session

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ingero/internal/tick"
)

// queue is the number of batches that a sink may lag behind. A slower sink blocks reading; then the
// kernel thins records by its own rules, and counts them.
const queue = 8

// While a sink blocks, the session calls Config.Alive this often, and for this long. A sink that hangs
// forever must not look alive forever.
const (
	aliveEvery = time.Second
	maxStall   = 10 * time.Minute
)

// fanOut passes batches and ticks to the sinks, each on its own goroutine.
type fanOut struct {
	workers   []*worker
	batched   []*worker // those whose sinks want batches
	pool      sync.Pool
	alive     func() // nil: not called
	clock     Clock
	lastAlive time.Time
}

// shared is a batch in use by several sinks.
type shared struct {
	tick.Batch
	users atomic.Int32
}

// message is a batch or a tick.
type message struct {
	batch *shared
	tick  *tick.Tick
}

type worker struct {
	sink tick.Sink
	in   chan message
	done chan struct{}
	err  error
}

func newFan(c *Config) *fanOut {
	f := &fanOut{pool: sync.Pool{New: func() any { return new(shared) }}, alive: c.Alive, clock: c.Clock}
	for _, s := range c.Sinks {
		w := &worker{sink: s, in: make(chan message, queue), done: make(chan struct{})}
		f.workers = append(f.workers, w)
		if x, ok := s.(interface{ WantsBatches() bool }); !ok || x.WantsBatches() {
			f.batched = append(f.batched, w)
		}
		go f.run(w, c.Log)
	}
	return f
}

func (f *fanOut) run(w *worker, log *slog.Logger) {
	defer close(w.done)
	for m := range w.in {
		var err error
		switch {
		case w.err != nil: // the sink has failed: discard the rest
		case m.batch != nil:
			err = w.sink.Batch(&m.batch.Batch)
		default:
			err = w.sink.Tick(m.tick)
		}
		if m.batch != nil {
			f.release(m.batch)
		}
		if err != nil {
			log.Warn("an output has stopped", "error", err)
			w.err = err
		}
	}
	w.err = errors.Join(w.err, w.sink.Close())
}

// batch returns an empty batch to fill.
func (f *fanOut) batch() *shared {
	b := f.pool.Get().(*shared)
	b.Calls, b.Waits, b.Ended, b.Procs = b.Calls[:0], b.Waits[:0], b.Ended[:0], b.Procs[:0]
	b.Ranges, b.Labels, b.Texts, b.Functions, b.RawStacks, b.Stacks = b.Ranges[:0], b.Labels[:0], b.Texts[:0], b.Functions[:0], b.RawStacks[:0], b.Stacks[:0]
	return b
}

func (f *fanOut) release(b *shared) {
	if b.users.Add(-1) == 0 {
		f.pool.Put(b)
	}
}

// send passes a batch to the sinks and takes ownership of it.
func (f *fanOut) send(b *shared) {
	b.users.Store(1)
	if len(b.Calls)+len(b.Waits)+len(b.Ended)+len(b.Procs)+len(b.Ranges)+len(b.Labels)+len(b.Functions)+len(b.Stacks) > 0 {
		b.users.Add(int32(len(f.batched)))
		for _, w := range f.batched {
			f.put(w, message{batch: b})
		}
	}
	f.release(b)
}

func (f *fanOut) tick(t *tick.Tick) {
	for _, w := range f.workers {
		f.put(w, message{tick: t})
	}
}

// put passes a message to a sink. It waits while the sink's queue is full.
func (f *fanOut) put(w *worker, m message) {
	if f.alive == nil {
		w.in <- m
		return
	}
	select {
	case w.in <- m:
		return
	default:
	}
	since := f.clock.Now()
	for now := since; now.Sub(since) < maxStall; now = f.clock.Now() {
		if now.Sub(f.lastAlive) >= aliveEvery {
			f.alive()
			f.lastAlive = now
		}
		select {
		case w.in <- m:
			return
		case <-f.clock.After(aliveEvery):
		}
	}
	w.in <- m
}

// close waits until the sinks have taken everything sent, closes them and returns their errors.
func (f *fanOut) close() error {
	var errs []error
	for _, w := range f.workers {
		close(w.in)
	}
	for _, w := range f.workers {
		<-w.done
		errs = append(errs, w.err)
	}
	return errors.Join(errs...)
}
