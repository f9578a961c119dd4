package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	maxSites  = 16      // stacks that are kept of an operation of a process
	maxOpOf   = 1 << 12 // operations of processes, and threads that were waited for
	maxPlaces = 1 << 15 // stacks whose place is kept
	fade      = 0.99    // what is left of a weight after a tick: chains are of minutes
)

// sites keeps from where the time of each operation comes, and of each thread that was waited
// for: the lines of code that a chain names.
type sites struct {
	places  map[uint32]string // of a stack, in words
	ops     tally[key]
	threads tally[threadKey]
	holders tally[threadKey]    // likewise, of those that had the GIL which was waited for
	turns   map[threadKey]turns // of threads that wait for the GIL
}

// turns are the waits of a thread for the GIL while another thread has it: a few milliseconds each,
// as Python asks for it in turns.
type turns struct {
	last   events.Wait
	ns     int64  // of those in a row that were in vain, until the last
	owed   int64  // of others, after which the GIL was taken by force at a place that is not known
	forced uint32 // the stack at which it was taken by force last, 0: none is known
}

// threadKey is a thread of a process.
type threadKey struct{ pid, tid uint32 }

// tally is of what in which stacks time was spent.
type tally[K comparable] map[K][]site

type site struct {
	stack uint32
	ns    float64 // of the calls that it stands for, or of the waits
}

func newSites() *sites {
	return &sites{places: map[uint32]string{}, ops: tally[key]{}, threads: tally[threadKey]{}, holders: tally[threadKey]{}, turns: map[threadKey]turns{}}
}

// batch adds stacks that have names, calls, and waits for other threads.
func (s *sites) batch(stacks []events.Stack, calls []events.Call, waits []events.Wait) {
	for i := range stacks {
		x := &stacks[i]
		if f := x.Site(); f != nil {
			if len(s.places) >= maxPlaces {
				clear(s.places)
			}
			s.places[x.ID] = f.Place()
		}
	}
	for i := range calls {
		if c := &calls[i]; c.Stack != 0 && c.Duration > 0 {
			s.ops.add(key{c.PID, c.Op}, c.Stack, float64(c.Duration)*float64(c.StackWeight()))
		}
	}
	for i := range waits {
		w := &waits[i]
		if w.Reason == events.ReasonGIL {
			s.turn(w)
		} else if w.Stack != w.OwnStack() {
			s.threads.add(threadKey{w.Who.PID, w.Who.TID}, w.Stack, float64(w.Duration))
		}
	}
}

// turn gives the time of a wait for the GIL, and of those before it, to the stack of the lock's holder.
// A holder that lets go by itself (a sleep, a read) is there only for the last wait. A holder that is
// made to let go has spent all the time there, and counts for earlier times it was made to at an unknown place.
func (s *sites) turn(w *events.Wait) {
	const long = 1e9 // ns: meanwhile the holder has come to other places
	if w.Who.TID == 0 {
		return
	}
	k := threadKey{w.PID, w.TID}
	t, known := s.turns[k]
	apart := w.Start - t.last.End()
	if t.last.Who.TID != w.Who.TID || apart > long {
		t = turns{}
	} else if !w.Continues(&t.last, apart) {
		t.ns, t.owed = 0, t.owed+t.ns
	}
	switch {
	case w.Stack == 0:
		t.ns += w.Duration
	case t.ns > 0:
		s.held(w, w.Stack, w.Duration+t.ns)
		t.ns, t.forced = 0, w.Stack
	default:
		s.held(w, w.Stack, w.Duration)
	}
	if t.forced != 0 {
		s.held(w, t.forced, t.owed)
		t.owed = 0
	}
	if t.last = *w; !known && len(s.turns) >= maxOpOf {
		clear(s.turns)
	}
	s.turns[k] = t
}

// held gives time in which w's holder had the GIL to a stack of it.
func (s *sites) held(w *events.Wait, stack uint32, ns int64) {
	if ns > 0 {
		s.threads.add(threadKey{w.Who.PID, w.Who.TID}, stack, float64(ns))
		s.holders.add(threadKey{w.Who.PID, w.Who.TID}, stack, float64(ns))
	}
}

// add gives time to a stack. Of many stacks those with most time stay, and a new
// one has what the least had: it is at most too much.
func (t tally[K]) add(k K, stack uint32, ns float64) {
	list := t[k]
	if list == nil && len(t) >= maxOpOf {
		clear(t)
	}
	least := 0
	for i := range list {
		if list[i].stack == stack {
			list[i].ns += ns
			return
		}
		if list[i].ns < list[least].ns {
			least = i
		}
	}
	if len(list) < maxSites {
		t[k] = append(list, site{stack, ns})
		return
	}
	list[least].stack, list[least].ns = stack, list[least].ns+ns
}

// ofChains names the place of each chain that is in calls of an operation, and those of its culprits.
func (s *sites) ofChains(chains []tick.Chain) {
	for i := range chains {
		c := &chains[i]
		c.At = s.ops.place(key{c.PID, c.Op}, s.places)
		for j := range c.Culprits {
			switch x := &c.Culprits[j]; {
			case x.Stack != 0:
				x.At = s.places[x.Stack]
			case x.What != "" || len(x.CPUs) == 0: // else it took a CPU alone, and nobody waited for it
				x.At = s.thread(&x.Thread)
			}
		}
	}
}

// thread is where a thread spent most of the time in which it was waited for, "" where that is not
// known.
func (s *sites) thread(t *events.Thread) string {
	return s.threads.place(threadKey{t.PID, t.TID}, s.places)
}

// ofRanks names where ranks are that are missing from collectives.
func (s *sites) ofRanks(calls []tick.RollCall) {
	for i := range calls {
		missing := calls[i].Missing
		for j := range missing {
			m := &missing[j]
			m.At = s.ops.place(key{m.PID, cmp.Or(m.Open.Op, m.Last.Op)}, s.places)
		}
	}
}

// ofLocks names where locks were held, and where the threads were that were waited for.
func (s *sites) ofLocks(breakdowns []tick.Breakdown) {
	for i := range breakdowns {
		b := &breakdowns[i]
		b.BlockedOn = slices.Clone(b.BlockedOn) // the ledger tells the same list of a process that is over in each tick
		for j := range b.BlockedOn {
			x := &b.BlockedOn[j]
			if x.At = s.places[x.Stack]; x.Reason == events.ReasonGIL {
				x.At = cmp.Or(s.holders.place(threadKey{x.Who.PID, x.Who.TID}, s.places), x.At)
			}
			if w := x.Waker; w != nil && w.Root.TID != 0 {
				x.WakerAt = s.thread(&w.Root)
			} else if w != nil {
				x.WakerAt = s.thread(&x.Who)
			}
		}
	}
}

// age has the time of a tick pass, and forgets processes that have ended long ago.
func (s *sites) age(now time.Time, processes []tick.Process) {
	s.ops.age()
	s.threads.age()
	s.holders.age()
	for i := range processes {
		if p := &processes[i]; !p.Ended.IsZero() && now.Sub(p.Ended) > tick.ChainStays {
			s.forget(p.PID)
		}
	}
}

func (t tally[K]) age() {
	for _, list := range t {
		for i := range list {
			list[i].ns *= fade
		}
	}
}

// place is where most time was spent, "" where that is not known. Several stacks can be at one
// place.
func (t tally[K]) place(k K, places map[uint32]string) (at string) {
	sums, most := map[string]float64{}, 0.0
	for _, x := range t[k] {
		place := places[x.stack]
		if place == "" {
			continue
		}
		sums[place] += x.ns
		if sums[place] > most {
			at, most = place, sums[place]
		}
	}
	return at
}

// forget drops all of a process.
func (s *sites) forget(pid uint32) {
	maps.DeleteFunc(s.ops, func(k key, _ []site) bool { return k.pid == pid })
	maps.DeleteFunc(s.threads, func(k threadKey, _ []site) bool { return k.pid == pid })
	maps.DeleteFunc(s.holders, func(k threadKey, _ []site) bool { return k.pid == pid })
	maps.DeleteFunc(s.turns, func(k threadKey, _ turns) bool { return k.pid == pid })
}
