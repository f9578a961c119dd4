// Package govern decides what tracing does without, so that it costs no more than it may:
// [Governor] of which processes launches are counted and not timed, [Budget] what else is
// left out, of all processes.
//
// It is pure: time and costs come in with each tick, decisions go out. It does
// not know how anything is made cheaper. Its caller is session.
package govern

import (
	"slices"
	"time"
)

// Use is what the launches of one process were in a tick.
type Use struct {
	PID      uint32
	Launches uint64        // that are in no other launch
	Cost     time.Duration // what the probes on all launches took of its threads
}

// Switch is a decision.
type Switch struct {
	PID     uint32
	Counted bool // from now on launches are counted only; false: timed again
	// Share is of one CPU: what the probes took, or would take if launches were
	// timed.
	Share float64
}

// What keeps a switch from being one of many.
const (
	confirm   = 2                // ticks over the budget, one after the other
	minTimed  = 5 * time.Second  // before launches are counted only once more
	minCool   = 10 * time.Second // under the level before they are timed again
	maxCool   = 5 * time.Minute
	relapse   = time.Minute // getting hot again within it doubles the time to cool
	coolShare = 0.5         // of the budget: the level to come back at
	minWindow = 100 * time.Millisecond
)

// Governor remembers the state of each process. The zero value has no budget and
// decides nothing. It is for one goroutine.
type Governor struct {
	Budget float64 // share of one CPU; 0: no bound
	procs  map[uint32]*state
}

type state struct {
	counted bool
	since   time.Time     // of the last switch; zero: there was none
	hot     int           // ticks over the budget in a row
	cool    time.Time     // since when it is under the level; zero: it is not
	wait    time.Duration // to cool
	per     float64       // ns that the probes take for a launch that is timed
}

// Tick takes in what the live processes did in the last window and returns what is
// to be switched. Processes that are not in uses are forgotten.
func (g *Governor) Tick(now time.Time, window time.Duration, uses []Use) (out []Switch) {
	if g.Budget <= 0 || window < minWindow {
		return nil
	}
	next := make(map[uint32]*state, len(uses))
	for i := range uses {
		u := &uses[i]
		s := g.procs[u.PID]
		if s == nil {
			s = &state{wait: minCool}
		}
		next[u.PID] = s
		var share float64
		var change bool
		if s.counted {
			share = s.per * float64(u.Launches) / float64(window)
			change = s.cooled(now, share < coolShare*g.Budget)
		} else {
			share = float64(u.Cost) / float64(window)
			change = s.heated(now, share > g.Budget)
			if u.Launches > 0 {
				s.per = float64(u.Cost) / float64(u.Launches)
			}
		}
		if change {
			out = append(out, s.change(u.PID, now, share))
		}
	}
	g.procs = next
	slices.SortFunc(out, func(a, b Switch) int { return int(a.PID) - int(b.PID) })
	return out
}

// heated tells whether launches that are timed have been too dear for long enough.
func (s *state) heated(now time.Time, over bool) bool {
	if !over {
		s.hot = 0
		return false
	}
	s.hot++
	return s.hot >= confirm && (s.since.IsZero() || now.Sub(s.since) >= minTimed)
}

// cooled tells whether launches that are counted would have been cheap for long
// enough.
func (s *state) cooled(now time.Time, under bool) bool {
	switch {
	case !under:
		s.cool = time.Time{}
		return false
	case s.cool.IsZero():
		s.cool = now
	}
	return now.Sub(s.cool) >= s.wait
}

func (s *state) change(pid uint32, now time.Time, share float64) Switch {
	if !s.counted {
		if s.since.IsZero() || now.Sub(s.since) >= relapse {
			s.wait = minCool
		} else {
			s.wait = min(2*s.wait, maxCool)
		}
	}
	s.counted, s.since, s.hot, s.cool = !s.counted, now, 0, time.Time{}
	return Switch{PID: pid, Counted: s.counted, Share: share}
}
