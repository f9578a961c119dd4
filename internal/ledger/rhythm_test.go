package ledger

import (
	"testing"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// turns are calls of one thread: a launch each 500 ms, and now and then one that closes its steps.
type turns struct {
	t      *testing.T
	l      *Ledger
	now    int64
	closes map[string]int // steps so far, by closing call; "" for seconds
	length int64          // of the last step
}

func newTurns(t *testing.T) *turns {
	return &turns{t: t, l: New(99), now: base, closes: map[string]int{}}
}

// call makes a call at the end of some milliseconds.
func (p *turns) call(name string, ms int64) {
	const took = 10_000
	p.now += ms * 1e6
	c := events.Call{PID: 7, TID: 7, Op: testkit.Op(name), Weight: 1, Start: p.now - took, Duration: took, OnCPU: took, Gap: ms*1e6 - took}
	for _, s := range p.l.Batch(nil, []events.Call{c}) {
		by := ""
		if s.Op != 0 {
			by = s.Op.String()
		}
		p.closes[by]++
		p.length = s.Length()
	}
}

// launch makes launches for some seconds.
func (p *turns) launch(seconds int) {
	for range 2 * seconds {
		p.call("cudaLaunchKernel", 500)
	}
}

// steps checks the numbers of steps closed by a synchronize, by a copy and by time, and forgets them.
func (p *turns) steps(syncs, copies, seconds int) {
	p.t.Helper()
	s, c, n := p.closes["cudaStreamSynchronize"], p.closes["cudaMemcpy"], p.closes[""]
	if s != syncs || c != copies || n != seconds {
		p.t.Errorf("%d steps end with a synchronize, %d with a copy, %d after a second; want %d, %d, %d", s, c, n, syncs, copies, seconds)
	}
	clear(p.closes)
}

// A thread that no longer synchronizes gets seconds as steps again.
func TestThreadThatSynchronizesNoMore(t *testing.T) {
	p := newTurns(t)
	for range 3 {
		p.launch(1)
		p.call("cudaStreamSynchronize", 1)
	}
	p.steps(2, 0, 0)
	p.launch(29)
	p.steps(0, 0, 0)
	p.launch(11)
	p.steps(0, 0, 10)
}

// Stalls do not end a step, however long and many they are.
func TestStallsStayInTheStep(t *testing.T) {
	p := newTurns(t)
	p.call("cudaStreamSynchronize", 1)
	for range 3 {
		p.call("cudaLaunchKernel", 200_000)
		p.launch(1)
	}
	p.call("cudaStreamSynchronize", 1)
	if p.steps(1, 0, 0); p.length != 603_001e6 {
		t.Errorf("the step takes %d ns, want 603.001 s", p.length)
	}
}

// Copies that close steps are not given up for a synchronize that comes each few minutes.
func TestCopiesBetweenRareSynchronizes(t *testing.T) {
	p := newTurns(t)
	for range 4 {
		p.call("cudaStreamSynchronize", 1)
		clear(p.closes)
		for range 200 {
			p.launch(1)
			p.call("cudaMemcpy", 1)
		}
		if p.closes["cudaMemcpy"] < 160 {
			t.Errorf("%d steps end with a copy, want about 170 of 200", p.closes["cudaMemcpy"])
		}
	}
}
