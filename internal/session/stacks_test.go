package session

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"ingero/internal/decode"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// slowFramer names a stack when it is allowed to.
type slowFramer struct {
	let   chan struct{} // nil: at once
	lives []tick.ProcEvent
}

func (f *slowFramer) Frames(s *tick.RawStack) []events.Frame {
	if f.let != nil {
		<-f.let
	}
	return []events.Frame{{Kind: events.FrameNative, IP: s.IPs[0], Func: "f"}}
}

func (f *slowFramer) Life(e tick.ProcEvent) { f.lives = append(f.lives, e) }
func (f *slowFramer) Trim()                 {}
func (f *slowFramer) Close() error          { return nil }

func rawStack(id uint32) tick.RawStack {
	return tick.RawStack{ID: id, PID: 7, IPs: []uint64{uint64(id)}}
}

// Named stacks arrive in the order in which they were taken, and process events in between stay in
// place.
func TestStacksAreNamed(t *testing.T) {
	f := &slowFramer{}
	n := newStacks(&Capabilities{Framer: f, StackPolicy: "all"})
	b := &tick.Batch{RawStacks: []tick.RawStack{rawStack(1), rawStack(2)}, Procs: []tick.ProcEvent{{Kind: tick.ProcExited, PID: 7}}}
	b.Stacks = n.batch(b.Stacks, b.RawStacks, b.Procs)
	b.Stacks = n.settle(t.Context(), b.Stacks)
	n.close()
	if len(b.Stacks) != 2 || b.Stacks[0].ID != 1 || b.Stacks[1].ID != 2 || b.Stacks[1].Frames[0].IP != 2 {
		t.Errorf("%+v", b.Stacks)
	}
	if drops := n.drops(); n.policy != "all" || drops[0].Count != 0 {
		t.Errorf("%q, %v", n.policy, drops)
	}
}

// While names are slow, a bounded number of stacks waits; the others are marked and counted. Only
// the end of a session waits for names, for a while.
func TestStacksAreBounded(t *testing.T) {
	f := &slowFramer{let: make(chan struct{})}
	n := newStacks(&Capabilities{Framer: f, StackPolicy: "all"})
	b := &tick.Batch{}
	const more = 10
	for i := range uint32(maxUnnamed + more) {
		b.RawStacks = append(b.RawStacks, rawStack(i+1))
	}
	b.Stacks = n.batch(b.Stacks, b.RawStacks, b.Procs)
	if len(b.Stacks) != more || b.Stacks[0].Frames[0].Kind != events.FrameGap {
		t.Errorf("%d are reported", len(b.Stacks))
	}
	for range 8 * maxUnnamed { // and a storm of forks
		n.batch(nil, nil, []tick.ProcEvent{{Kind: tick.ProcForked, PID: 7, Peer: 8}})
	}
	n.mu.Lock()
	waiting := len(n.in)
	n.mu.Unlock()
	if waiting > 4*maxUnnamed+1 {
		t.Errorf("%d wait", waiting)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	b.Stacks = n.settle(ended, b.Stacks)
	if drops := n.drops(); drops[0] != (tick.Drop{Reason: "stack-not-named", Count: more}) {
		t.Errorf("drops: %v", drops)
	}
	close(f.let)
	b.Stacks = n.settle(t.Context(), b.Stacks)
	n.close()
	if len(b.Stacks) != maxUnnamed+more {
		t.Errorf("%d of %d are reported in the end", len(b.Stacks), maxUnnamed+more)
	}
}

// Stacks of a recording pass with their names.
func TestRecordedStacksPass(t *testing.T) {
	n := newStacks(&Capabilities{})
	b := &tick.Batch{Stacks: []events.Stack{{ID: 1}}, RawStacks: []tick.RawStack{rawStack(2)}}
	b.Stacks = n.batch(b.Stacks, b.RawStacks, b.Procs)
	b.Stacks = n.settle(t.Context(), b.Stacks)
	n.close()
	if len(b.Stacks) != 1 || n.drops() != nil {
		t.Errorf("%v", b.Stacks)
	}
}

// hungFramer hangs in a read, and says so.
type hungFramer struct {
	slowFramer
	reads chan struct{}
}

func (f *hungFramer) Frames(s *tick.RawStack) []events.Frame {
	f.reads <- struct{}{}
	return f.slowFramer.Frames(s)
}

// A process whose memory cannot be read does not keep a session from its end.
func TestSessionEndsWhileReadsHang(t *testing.T) {
	testkit.LeakCheck(t)
	f := &hungFramer{slowFramer{let: make(chan struct{})}, make(chan struct{})}
	n := newStacks(&Capabilities{Framer: f, StackPolicy: "all"})
	n.batch(nil, []tick.RawStack{rawStack(1)}, nil)
	<-f.reads
	r := newResolver(nil, decode.Clock{})
	r.work.Go(func() { <-f.let })
	n.last, r.last = 1, 1 // ns
	var ended atomic.Bool
	go func() {
		n.close()
		r.wait()
		ended.Store(true)
	}()
	testkit.Eventually(t, "the end", ended.Load)
	close(f.let)
	if err := r.close(); err != nil {
		t.Error(err)
	}
}

// codesFramer records the code objects that it receives.
type codesFramer struct {
	slowFramer
	codes chan string
}

func (f *codesFramer) Frames(s *tick.RawStack) []events.Frame {
	frames := f.slowFramer.Frames(s)
	for _, c := range s.PyCodes {
		f.codes <- string(c)
	}
	return frames
}

// Code objects of a stack without room arrive with the next stack.
func TestCodesOfRefusedStacks(t *testing.T) {
	f := &codesFramer{slowFramer{let: make(chan struct{})}, make(chan string, 2)}
	n := newStacks(&Capabilities{Framer: f, StackPolicy: "all"})
	var raws []tick.RawStack
	for i := range uint32(maxUnnamed) {
		raws = append(raws, rawStack(i+1))
	}
	refused, next := rawStack(maxUnnamed+1), rawStack(maxUnnamed+2)
	refused.PyCodes, next.PyCodes = [][]byte{[]byte("main")}, [][]byte{[]byte("step")}
	n.batch(nil, append(raws, refused), nil)
	close(f.let)
	n.settle(t.Context(), nil)
	n.batch(nil, []tick.RawStack{next}, nil)
	n.settle(t.Context(), nil)
	n.close()
	close(f.codes)
	var got []string
	for c := range f.codes {
		got = append(got, c)
	}
	if !slices.Equal(got, []string{"main", "step"}) {
		t.Errorf("%q came, want those of the refused stack and of the next", got)
	}
}
