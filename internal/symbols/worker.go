package symbols

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"ingero/pkg/events"
)

// Limits of what is asked of a Reader.
const (
	eagerNames  = 1024    // of a process, read though they were not launched yet
	maxRequests = 1 << 15 // that have no answer yet
	chunk       = 256     // addresses of one question
)

// ErrEnded says that a process has ended.
var ErrEnded = errors.New("the process has ended")

// Reader reads what lies in processes. It is called from one goroutine and may take
// its time. A process is the one of its number that was there at seen, in Unix ns;
// the error is [ErrEnded] when it is gone.
type Reader interface {
	// Strings returns the text at each address, which ends with a zero byte, ""
	// where there is none.
	Strings(pid uint32, seen int64, at []uint64) ([]string, error)
	// Symbols returns the name of the function at each address, "" where there is none.
	Symbols(pid uint32, seen int64, at []uint64) ([]string, error)
}

// request asks for the name of a function.
type request struct {
	p      *process
	handle uint64 // that was launched or registered
	named  uint64 // the handle that has the name: handle, or what it is made of
	at     uint64
	symbol bool  // at is where its symbol is, not its name
	seen   int64 // when the process was there
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
	idle chan struct{} // holds a value when something was answered

	ready atomic.Bool // there are results

	mu      sync.Mutex
	in      []request
	out     []result
	pending int // requests without an answer
}

func startWorker(r Reader) *worker {
	w := &worker{r: r, wake: make(chan struct{}, 1), idle: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *worker) close() {
	close(w.stop)
	<-w.done
}

// ask takes requests in and returns those for which there is no room.
func (w *worker) ask(list []request) (refused []request) {
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

// settle waits until all was answered, or ctx ends: then it returns false if nothing came.
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

// take appends the results that there are.
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

// together returns how many of the first requests can be one question.
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
	ask := w.r.Strings
	if list[0].symbol {
		ask = w.r.Symbols
	}
	names, err := ask(list[0].p.pid, list[0].seen, at)
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

// answers takes in what the Reader said.
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
	if f == nil || f.state != stateWaiting { // read before a launch
		return
	}
	a := answer{name: id}
	switch {
	case id != 0:
	case r.name != "":
		a.why = events.NoNameFull
	case errors.Is(r.err, ErrEnded):
		a.why = events.NoNameEnded
	case !r.symbol:
		a.why = events.NoNameUnread
	case r.p.full:
		a.why = events.NoNameFull
	default:
		a.why = events.NoNameUnseen
	}
	if _, known := r.p.find(r.named); r.symbol && known && id == 0 { // what it was made from was told meanwhile
		n.resolve(r.p, r.handle, f, r.seen)
		return
	}
	n.settle(r.p, r.handle, f, a)
}

// refuse tells of requests that there was no room for.
func (n *Names) refuse(list []request) {
	for i := range list {
		r := &list[i]
		if f := r.p.funcs[r.handle]; f != nil && f.state == stateWaiting {
			n.settle(r.p, r.handle, f, answer{why: events.NoNameFull})
		}
	}
}
