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

// Framer names what stacks are made of. It is called from one goroutine and may take its
// time.
type Framer interface {
	// Frames returns the frames of a stack, innermost first.
	Frames(s *tick.RawStack) []events.Frame
	// Life tells of a process that was forked, runs another program, or has ended. Stacks
	// from before can come after. Without a kind it says that such news were lost.
	Life(e tick.ProcEvent)
	// Trim lets go what was not used for a while. It is called now and then.
	Trim(now time.Time)
	// Close ends it.
	Close() error
}

// maxUnnamed bounds the stacks that wait for their names, and the steps in the lives of
// processes between them.
const maxUnnamed = 1 << 13

// trimEvery is how often the framer is trimmed.
const trimEvery = 5 * time.Second

// stacks gives stacks their names, on a goroutine of its own.
type stacks struct {
	framer Framer // nil: what a recording tells is all
	raw    deck   // the raw tape; nil: there is none
	policy string
	ready  atomic.Bool // there are some in out
	wake   chan struct{}
	idle   chan struct{} // holds a value when something was named
	stop   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	in      []unnamed
	out     []events.Stack
	pending int      // not named yet
	codes   [][]byte // that came with refused stacks: they are told once, and later stacks have them, too

	refused uint64 // the session's own
}

// unnamed is a stack without names, or a step in a process's life.
type unnamed struct {
	stack *tick.RawStack
	life  tick.ProcEvent
}

// newStacks starts what names the stacks of a source. It is to be closed.
func newStacks(can *Capabilities) *stacks {
	n := &stacks{framer: can.Framer, raw: can.deck, policy: can.StackPolicy,
		wake: make(chan struct{}, 1), idle: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	if n.framer == nil {
		close(n.done)
		return n
	}
	go n.run()
	return n
}

func (n *stacks) close() {
	close(n.stop)
	<-n.done
}

// batch asks for names of raw stacks, and appends to the stacks of a batch those that have
// theirs now. A stack for which there is no room has one frame, which says so.
func (n *stacks) batch(to []events.Stack, raws []tick.RawStack, lives []tick.ProcEvent) []events.Stack {
	if n.framer == nil || len(raws)+len(lives) == 0 {
		return n.take(to)
	}
	n.mu.Lock()
	for i := range raws {
		raw := raws[i]
		for len(lives) > 0 && lives[0].Time <= raw.Time {
			n.lived(lives[0])
			lives = lives[1:]
		}
		if n.pending >= maxUnnamed || len(n.in) >= 4*maxUnnamed {
			n.refused++
			n.codes = append(n.codes, raw.PyCodes[:min(len(raw.PyCodes), maxUnnamed-len(n.codes))]...)
			to = append(to, events.Stack{ID: raw.ID, PID: raw.PID,
				Frames: []events.Frame{{Kind: events.FrameGap, Func: "too many new stacks at a time"}}})
			continue
		}
		if len(n.codes) > 0 {
			raw.PyCodes, n.codes = append(n.codes, raw.PyCodes...), nil
		}
		n.pending++
		n.in = append(n.in, unnamed{stack: &raw})
	}
	for _, e := range lives {
		n.lived(e)
	}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return n.take(to)
}

// lived has the framer told of a step in a process's life. mu is held.
func (n *stacks) lived(e tick.ProcEvent) {
	if last := len(n.in) - 1; last >= 4*maxUnnamed { // no stack, since there is no room for one
		n.in[last] = unnamed{}
		return
	}
	n.in = append(n.in, unnamed{life: e})
}

// take appends the stacks that have their names now.
func (n *stacks) take(to []events.Stack) []events.Stack {
	to, _ = n.answered(to)
	return to
}

// answered is take, and tells whether a raw tape may have more.
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

// settle waits for what was asked and appends it to the stacks of a batch. What has not come
// when ctx ends is not told.
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

// drops tells what has become of stacks, where their policy is known.
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
		case now := <-trim.C:
			n.framer.Trim(now)
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
	s := events.Stack{ID: raw.ID, PID: raw.PID, Cut: cut(raw), Frames: n.framer.Frames(raw)}
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

// cut says that a stack was deeper than what is taken.
func cut(s *tick.RawStack) bool {
	return unwind.End(s.End) == unwind.Deep || python.End(s.PyEnd) == python.EndCut
}
