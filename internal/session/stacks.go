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

// lastStacks is how long the end of a session waits for names that are being looked up.
const lastStacks = 2 * time.Second

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
	pending int // not named yet

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

// batch asks for names of the batch's raw stacks, and adds to its stacks those that have
// theirs now. A stack for which there is no room has one frame, which says so.
func (n *stacks) batch(b *tick.Batch) {
	if n.framer == nil {
		n.take(b)
		return
	}
	if len(b.RawStacks)+len(b.Procs) > 0 {
		n.mu.Lock()
		lives := b.Procs
		for i := range b.RawStacks {
			raw := b.RawStacks[i]
			for len(lives) > 0 && lives[0].Time <= raw.Time {
				n.lived(lives[0])
				lives = lives[1:]
			}
			if n.pending >= maxUnnamed || len(n.in) >= 4*maxUnnamed {
				n.refused++
				b.Stacks = append(b.Stacks, events.Stack{ID: raw.ID, PID: raw.PID,
					Frames: []events.Frame{{Kind: events.FrameGap, Func: "too many new stacks at a time"}}})
				continue
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
	}
	n.take(b)
}

// lived has the framer told of a step in a process's life. mu is held.
func (n *stacks) lived(e tick.ProcEvent) {
	if last := len(n.in) - 1; last >= 4*maxUnnamed { // no stack, since there is no room for one
		n.in[last] = unnamed{}
		return
	}
	n.in = append(n.in, unnamed{life: e})
}

// take adds the stacks that have their names now. It tells whether a raw tape may have more.
func (n *stacks) take(b *tick.Batch) (more bool) {
	if n.raw == nil {
		n.named(b)
		return false
	}
	var x tick.Batch
	more = n.raw.answer(tape.Stacks, &x.Stacks, func() { n.named(&x) })
	b.Stacks = append(b.Stacks, x.Stacks...)
	return more
}

// named adds the stacks that the framer has named.
func (n *stacks) named(b *tick.Batch) {
	if !n.ready.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	b.Stacks = append(b.Stacks, n.out...)
	clear(n.out)
	n.out = n.out[:0]
	n.ready.Store(false)
}

// settle waits for what was asked and adds it to a batch. What has not come when ctx ends
// is not told.
func (n *stacks) settle(ctx context.Context, b *tick.Batch) {
	for n.raw != nil && n.raw.plays() && n.take(b) {
	}
	for n.framer != nil {
		n.mu.Lock()
		left := n.pending
		n.mu.Unlock()
		if n.take(b); left == 0 {
			return
		}
		select {
		case <-n.idle:
		case <-ctx.Done():
			n.take(b)
			return
		}
	}
}

// tick tells what has become of stacks.
func (n *stacks) tick(t *tick.Tick) {
	if n.policy == "" {
		return
	}
	t.StackPolicy = n.policy
	t.Drops = append(t.Drops, tick.Drop{Reason: "stack-not-named", Count: n.refused})
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

// settleStacks sends the stacks whose names are still being looked up when the session
// ends.
func (r *runner) settleStacks() {
	ctx, cancel := context.WithTimeout(context.Background(), lastStacks)
	defer cancel()
	b := r.fan.batch()
	r.stacks.settle(ctx, &b.Batch)
	r.sites.batch(&b.Batch)
	r.fan.send(b)
}
