package loop

import (
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	maxTurns = 96 // that are remembered: a loop is found if three of it fit
	mostLoop = 32 // turns of a step
	leastFew = 12 // turns from which on a loop is looked for
	maxLoops = 4
	simpler  = 0.05 // by which fewer are enough for steps of one turn: an odd one spoils two
	lookEach = 16   // turns, while no loop has been found
)

// alike is the share of turns that must be like those before, by kind of token: there are
// few coarse ones, so that they are often alike by chance.
var alike = [...]float64{fine: 0.7, coarse: 0.9}

// thread is what is kept of one thread.
type thread struct {
	pid, tid uint32
	seen     uint64 // tick
	ring     []turn // the last turns, the oldest at next once there are maxTurns
	next     int
	since    int // turns since a loop was looked for

	at    *found // the loop that it is in, nil: none is known
	loops []*found
	step  turn // the turns of the step so far as one
	turns int  // how many
}

// found is a loop.
type found struct {
	turns         int
	kind          int    // of tokens by which turns are told apart
	first, closer uint32 // the tokens that begin and end a step; first is 0 where it begins others, too
	place         uint32 // of the turn that ends it
	op            events.Op
	total         time.Duration
	gpu           time.Duration
	lengths       stats.Sketch
	parts         [len(tick.StepParts)]stats.Sketch
	slowest       []tick.LoopStep
	recent        []tick.LoopStep
}

// token is what a turn is told apart by in this loop.
func (l *found) token(t *turn) uint32 { return t.token[l.kind] }

// push remembers a turn.
func (t *thread) push(x *turn) {
	if len(t.ring) < maxTurns {
		t.ring = append(t.ring, *x)
		return
	}
	t.ring[t.next] = *x
	t.next = (t.next + 1) % maxTurns
}

// turnAt returns a remembered turn, from 0, the oldest.
func (t *thread) turnAt(i int) *turn {
	if len(t.ring) < maxTurns {
		return &t.ring[i]
	}
	return &t.ring[(t.next+i)%maxTurns]
}

// take follows the loop by one turn, which may end a step.
func (t *thread) take(x *turn) {
	l := t.at
	token := l.token(x)
	if t.turns >= l.turns && l.turns > 1 && token == l.first { // its last turn was an odd one
		t.close()
	}
	if t.turns > 0 && (t.step.to != x.from || t.turns >= 4*l.turns) { // turns are missing, or it is no such loop
		t.turns = 0
	}
	if t.turns == 0 {
		t.step = *x
	} else {
		t.step.add(x)
	}
	t.turns++
	if l.turns == 1 || token == l.closer {
		t.close()
	}
}

// close ends a step. One of which not all turns were seen does not count.
func (t *thread) close() {
	l, x := t.at, &t.step
	whole := t.turns >= l.turns
	t.turns = 0
	if whole {
		l.add(x)
	}
}

// add counts a step.
func (l *found) add(x *turn) {
	length := x.to - x.from
	l.lengths.Add(length, 1)
	l.total += time.Duration(length)
	l.gpu += x.times.GPUWait
	for i, p := range x.times.Parts() {
		l.parts[i].Add(int64(*p), 1)
	}
	slow := func(list []tick.LoopStep) bool {
		return len(list) < tick.SlowSteps || time.Duration(length) > list[len(list)-1].Length()
	}
	if slow(l.slowest) || slow(l.recent) {
		s := x.told()
		l.slowest, l.recent = tick.Slower(l.slowest, s), tick.Slower(l.recent, s)
	}
}
