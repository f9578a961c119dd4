package loop

import (
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	maxTurns = 96 // remembered turns: a loop is found if three periods fit
	mostLoop = 32 // maximum turns of a step
	leastFew = 12 // minimum turns for a search
	maxLoops = 4
	simpler  = 0.05 // smaller share for steps of one turn, because an odd turn spoils two
	lookEach = 16   // turns between searches while no loop is known
)

// alike is the share of turns that must equal the earlier ones, by kind of token. There are few
// coarse tokens, so they are often alike by chance.
var alike = [...]float64{fine: 0.7, coarse: 0.9}

// thread is the state of one thread.
type thread struct {
	pid, tid uint32
	ids      *ids
	seen     uint64 // tick
	ring     []turn // latest turns; the oldest is at next once there are maxTurns
	next     int
	since    int // turns since the last search

	current *found // current loop, or nil
	loops   []*found
	step    turn // turns of the current step, combined
	turns   int  // number of these turns
}

// found is a loop.
type found struct {
	id            uint64
	last          *tick.Loop // its form in the last tick, if it is not the main one
	turns         int
	kind          int    // of the tokens that distinguish turns
	first, closer uint32 // tokens that begin and end a step; first is 0 if it also begins other turns
	place         uint32 // of the closing turn
	op            events.Op
	until         int64 // Unix ns: end of the last step
	total         time.Duration
	gpu           time.Duration
	lengths       stats.Sketch
	parts         [len(tick.StepParts)]stats.Sketch
	slowest       []tick.LoopStep
	recent        []tick.LoopStep
}

// token returns the token of a turn in this loop.
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

// turnAt returns a remembered turn; 0 is the oldest.
func (t *thread) turnAt(i int) *turn {
	if len(t.ring) < maxTurns {
		return &t.ring[i]
	}
	return &t.ring[(t.next+i)%maxTurns]
}

// take advances the loop by one turn, which may end a step.
func (t *thread) take(x *turn) {
	l := t.current
	token := l.token(x)
	if t.turns >= l.turns && l.turns > 1 && token == l.first { // its last turn was an odd one
		t.close()
	}
	if t.turns > 0 && (t.step.to != x.from || t.turns >= 4*l.turns) { // turns are missing, or the loop does not match
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

// close ends a step. Incomplete steps do not count.
func (t *thread) close() {
	l, x := t.current, &t.step
	whole := t.turns >= l.turns
	t.turns = 0
	if whole {
		l.add(x)
	}
}

// add counts a step.
func (l *found) add(x *turn) {
	length := x.to - x.from
	l.until = x.to
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
		s := x.toTick()
		l.slowest, l.recent = tick.Slower(l.slowest, s), tick.Slower(l.recent, s)
	}
}
