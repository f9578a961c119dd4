package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ingero/internal/python"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/internal/unwind"
	"ingero/pkg/events"
)

// Framer names the frames of stacks. It is called from one goroutine and may be slow.
type Framer interface {
	// Frames returns the frames of a stack, innermost first.
	Frames(s *tick.RawStack) []events.Frame
	// Life delivers a fork, exec or exit. Stacks from before the event may follow it. Kind 0 says
	// that events were lost.
	Life(e tick.ProcEvent)
	// Trim frees what has been unused for a while. It is called periodically.
	Trim()
	// Close releases its resources.
	Close() error
}

// maxUnnamed bounds the stacks that wait for names. The queue has four times that, since it also
// has process events.
const maxUnnamed = 1 << 13

// trimEvery is the interval of trimming the framer.
const trimEvery = 5 * time.Second

// stacks names stacks on its own goroutine.
type stacks struct {
	framer Framer // nil: stacks of a recording have their names
	raw    tapeIO // the raw tape; nil: none
	policy string
	ready  atomic.Bool // out is not empty
	wake   chan struct{}
	idle   chan struct{} // holds a value after a stack was named
	stop   chan struct{}
	done   chan struct{}
	last   time.Duration // bound on the wait at the end for the framer

	mu      sync.Mutex
	in      []unnamed
	out     []events.Stack
	pending int      // number of unnamed stacks
	codes   [][]byte // code objects of refused stacks: emitted once, but later stacks need them

	refused uint64 // stacks without room; for the session's goroutine
}

// unnamed is a stack without names, or a process event.
type unnamed struct {
	stack *tick.RawStack
	life  tick.ProcEvent
}

// newStacks starts naming the stacks of a source. The caller must close it.
func newStacks(can *Capabilities) *stacks {
	n := &stacks{framer: can.Framer, raw: can.deck, policy: can.StackPolicy,
		wake: make(chan struct{}, 1), idle: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), last: lastStacks}
	if n.framer == nil {
		close(n.done)
		return n
	}
	go n.run()
	return n
}

// close stops naming. A framer that hangs in a read of a process's memory is abandoned: it ends with
// that process, or with this one.
func (n *stacks) close() {
	close(n.stop)
	select {
	case <-n.done:
	case <-time.After(n.last):
	}
}

// batch queues raw stacks for naming, and appends those named since to a batch's stacks. If the
// queue is full, a stack gets one frame that says so.
func (n *stacks) batch(to []events.Stack, raws []tick.RawStack, lives []tick.ProcEvent) []events.Stack {
	if n.framer == nil || len(raws)+len(lives) == 0 {
		return n.take(to)
	}
	n.mu.Lock()
	for i := range raws {
		raw := raws[i]
		for len(lives) > 0 && lives[0].Time <= raw.Time {
			n.queueEvent(lives[0])
			lives = lives[1:]
		}
		if n.pending >= maxUnnamed || len(n.in) >= 4*maxUnnamed {
			n.refused++
			n.codes = append(n.codes, raw.PyCodes[:min(len(raw.PyCodes), maxUnnamed-len(n.codes))]...)
			to = append(to, events.Stack{ID: raw.ID, PID: raw.PID,
				Frames: []events.Frame{{Kind: events.FrameGap, Func: "too many new stacks at once"}}})
			continue
		}
		if len(n.codes) > 0 {
			raw.PyCodes, n.codes = append(n.codes, raw.PyCodes...), nil
		}
		n.pending++
		n.in = append(n.in, unnamed{stack: &raw})
	}
	for _, e := range lives {
		n.queueEvent(e)
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return n.take(to)
}

// queueEvent queues a process event. mu is held.
func (n *stacks) queueEvent(e tick.ProcEvent) {
	if last := len(n.in) - 1; last >= 4*maxUnnamed { // nearly full: replace the event by a loss
		n.in[last] = unnamed{}
		return
	}
	n.in = append(n.in, unnamed{life: e})
}

// take appends the stacks named since the last call.
func (n *stacks) take(to []events.Stack) []events.Stack {
	to, _ = n.answered(to)
	return to
}

// answered implements take. more reports whether a raw tape may have more stacks.
func (n *stacks) answered(to []events.Stack) (_ []events.Stack, more bool) {
	if n.raw == nil {
		return n.named(to), false
	}
	var x []events.Stack
	more = n.raw.answer(tape.Stacks, &x, func() { x = n.named(nil) })
	return append(to, x...), more
}

// named appends the stacks that the framer has named.
func (n *stacks) named(to []events.Stack) []events.Stack {
	if !n.ready.Load() {
		return to
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	to = append(to, n.out...)
	clear(n.out)
	n.out = n.out[:0]
	n.ready.Store(false)
	return to
}

// settle waits for queued stacks and appends them to the stacks of a batch. It discards the ones
// that are unnamed when ctx ends.
func (n *stacks) settle(ctx context.Context, to []events.Stack) []events.Stack {
	for more := n.raw != nil && n.raw.plays(); more; {
		to, more = n.answered(to)
	}
	for n.framer != nil {
		n.mu.Lock()
		left := n.pending
		n.mu.Unlock()
		if to = n.take(to); left == 0 {
			return to
		}
		select {
		case <-n.idle:
		case <-ctx.Done():
			return n.take(to)
		}
	}
	return to
}

// drops returns the losses of stacks, if their policy is known.
func (n *stacks) drops() []tick.Drop {
	if n.policy == "" {
		return nil
	}
	return []tick.Drop{{Reason: "stack-not-named", Count: n.refused}}
}

func (n *stacks) run() {
	defer close(n.done)
	defer func() { _ = n.framer.Close() }()
	trim := time.NewTicker(trimEvery)
	defer trim.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-trim.C:
			n.framer.Trim()
			continue
		case <-n.wake:
		}
		n.mu.Lock()
		list := n.in
		n.in = nil
		n.mu.Unlock()
		for i := range list {
			select {
			case <-n.stop:
				return
			default:
			}
			n.name(&list[i])
		}
	}
}

func (n *stacks) name(u *unnamed) {
	if u.stack == nil {
		n.framer.Life(u.life)
		return
	}
	raw := u.stack
	s := events.Stack{ID: raw.ID, PID: raw.PID, Cut: cut(raw), Own: raw.Own, Frames: n.framer.Frames(raw)}
	n.mu.Lock()
	n.out = append(n.out, s)
	n.pending--
	n.ready.Store(true)
	n.mu.Unlock()
	select {
	case n.idle <- struct{}{}:
	default:
	}
}

// cut reports whether a stack was deeper than the walker's limit.
func cut(s *tick.RawStack) bool {
	return unwind.End(s.End) == unwind.Deep || python.End(s.PyEnd) == python.EndCut
}
