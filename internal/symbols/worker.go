package symbols

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingero/pkg/events"
)

// Limits of requests to a Reader.
const (
	eagerNames  = 1024    // per process, read before their first launch
	maxRequests = 1 << 15 // unanswered requests
	chunk       = 256     // addresses per call of the Reader
	lastCall    = 2 * time.Second
)

// ErrEnded means that a process has ended.
var ErrEnded = errors.New("the process has ended")

// Reader reads names from processes. It is called from one goroutine and may block. seen is a time
// at which the process existed, in Unix ns; the error is [ErrEnded] when that process is gone.
type Reader interface {
	// Strings returns the zero-terminated text at each address, "" if there is none.
	Strings(pid uint32, seen int64, at []uint64) ([]string, error)
	// Symbols returns the name of the function at each address, "" if there is none.
	Symbols(pid uint32, seen int64, at []uint64) ([]string, error)
}

// request is a request for the name of a function.
type request struct {
	p      *process
	handle uint64 // launched or registered handle
	named  uint64 // the handle with the name: handle, or its alias target
	at     uint64
	symbol bool  // at is the function's address, not its name's
	seen   int64 // time at which the process existed
}

type result struct {
	request
	name string
	err  error
}

// worker calls a Reader.
type worker struct {
	r    Reader
	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	last time.Duration // bound on the wait of close
	idle chan struct{} // holds a value after an answer

	ready atomic.Bool // results are available

	mu      sync.Mutex
	in      []request
	out     []result
	pending int // unanswered requests
}

func startWorker(r Reader) *worker {
	w := &worker{r: r, wake: make(chan struct{}, 1), idle: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), last: lastCall}
	go w.run()
	return w
}

func (w *worker) close() {
	close(w.stop)
	select {
	case <-w.done:
	case <-time.After(w.last):
	}
}

// enqueue queues requests, and returns those that do not fit.
func (w *worker) enqueue(list []request) (refused []request) {
	w.mu.Lock()
	n := min(len(list), max(maxRequests-w.pending, 0))
	w.in = append(w.in, list[:n]...)
	w.pending += n
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return list[n:]
}

// settle waits until all requests are answered. It returns false if ctx is done and no answer came.
func (w *worker) settle(ctx context.Context) bool {
	for {
		w.mu.Lock()
		left := w.pending
		w.mu.Unlock()
		if left == 0 {
			return true
		}
		select {
		case <-w.idle:
		case <-ctx.Done():
			return w.ready.Load()
		}
	}
}

// take appends the available results to dst.
func (w *worker) take(dst []result) []result {
	if !w.ready.Load() {
		return dst
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	dst = append(dst, w.out...)
	clear(w.out)
	w.out = w.out[:0]
	w.ready.Store(false)
	return dst
}

func (w *worker) run() {
	defer close(w.done)
	for {
		select {
		case <-w.stop:
			return
		case <-w.wake:
		}
		w.mu.Lock()
		list := w.in
		w.in = nil
		w.mu.Unlock()
		for len(list) > 0 {
			select {
			case <-w.stop:
				return
			default:
			}
			n := together(list)
			w.answer(list[:n])
			list = list[n:]
		}
	}
}

// together returns how many of the first requests can share one call of the Reader.
func together(list []request) int {
	n := slices.IndexFunc(list, func(r request) bool { return r.p != list[0].p || r.symbol != list[0].symbol })
	if n < 0 {
		n = len(list)
	}
	return min(n, chunk)
}

func (w *worker) answer(list []request) {
	at := make([]uint64, len(list))
	for i := range list {
		at[i] = list[i].at
	}
	read := w.r.Strings
	if list[0].symbol {
		read = w.r.Symbols
	}
	names, err := read(list[0].p.pid, list[0].seen, at)
	w.mu.Lock()
	for i := range list {
		r := result{request: list[i], err: err}
		if i < len(names) {
			r.name = names[i]
		}
		w.out = append(w.out, r)
	}
	w.pending -= len(list)
	w.ready.Store(true)
	w.mu.Unlock()
	select {
	case w.idle <- struct{}{}:
	default:
	}
}

// answers handles the Reader's results.
func (n *Names) answers() {
	if n.work == nil {
		return
	}
	n.results = n.work.take(n.results[:0])
	for i := range n.results {
		n.answer(&n.results[i])
	}
	clear(n.results)
}

func (n *Names) answer(r *result) {
	id := n.words.id(r.name)
	if reg, ok := r.p.regs[r.named]; ok && id != 0 && !r.symbol && reg.value == r.at && !reg.alias {
		reg.name = id
		r.p.regs[r.named] = reg
	}
	f := r.p.funcs[r.handle]
	if f == nil || f.state != stateWaiting { // it was read before a launch
		return
	}
	a := answer{name: id}
	switch {
	case id != 0:
	case r.name != "":
		a.reason = events.NoNameFull
	case errors.Is(r.err, ErrEnded):
		a.reason = events.NoNameEnded
	case !r.symbol:
		a.reason = events.NoNameUnread
	case r.p.full:
		a.reason = events.NoNameFull
	default:
		a.reason = events.NoNameUnseen
	}
	if _, known := r.p.find(r.named); r.symbol && known && id == 0 { // the handle was registered meanwhile
		n.resolve(r.p, r.handle, f, r.seen)
		return
	}
	n.settle(r.p, r.handle, f, a)
}

// refuse settles the requests that did not fit.
func (n *Names) refuse(list []request) {
	for i := range list {
		r := &list[i]
		if f := r.p.funcs[r.handle]; f != nil && f.state == stateWaiting {
			n.settle(r.p, r.handle, f, answer{reason: events.NoNameFull})
		}
	}
}
