package session

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	maxSites  = 16      // stacks that are kept of an operation of a process
	maxOpOf   = 1 << 12 // operations of processes
	maxPlaces = 1 << 15 // stacks whose place is kept
	fade      = 0.99    // what is left of a weight after a tick: chains are of minutes
)

// sites keeps from where the time of each operation comes: the line of code that a chain
// names.
type sites struct {
	places map[uint32]string // of a stack, in words
	ops    map[key][]site
}

type site struct {
	stack uint32
	ns    float64 // of the calls that it stands for
}

func newSites() *sites { return &sites{places: map[uint32]string{}, ops: map[key][]site{}} }

// batch adds stacks that have names, and calls.
func (s *sites) batch(stacks []events.Stack, calls []events.Call) {
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
			s.add(c)
		}
	}
}

// add gives a call's time to its stack. Of many stacks those with most time stay, and a new
// one has what the least had: it is at most too much.
func (s *sites) add(c *events.Call) {
	k := key{c.PID, c.Op}
	list := s.ops[k]
	if list == nil && len(s.ops) >= maxOpOf {
		clear(s.ops)
	}
	ns := float64(c.Duration) * float64(c.StackWeight())
	least := 0
	for i := range list {
		if list[i].stack == c.Stack {
			list[i].ns += ns
			return
		}
		if list[i].ns < list[least].ns {
			least = i
		}
	}
	if len(list) < maxSites {
		s.ops[k] = append(list, site{c.Stack, ns})
		return
	}
	list[least].stack, list[least].ns = c.Stack, list[least].ns+ns
}

// ofChains names the place of each chain that is in calls of an operation.
func (s *sites) ofChains(chains []tick.Chain) {
	for i := range chains {
		c := &chains[i]
		c.At = s.place(key{c.PID, c.Op})
	}
}

// ofRanks names where ranks are that are missing from collectives.
func (s *sites) ofRanks(calls []tick.RollCall) {
	for i := range calls {
		missing := calls[i].Missing
		for j := range missing {
			m := &missing[j]
			m.At = s.place(key{m.PID, cmp.Or(m.Open.Op, m.Last.Op)})
		}
	}
}

// ofLocks names where locks were held.
func (s *sites) ofLocks(breakdowns []tick.Breakdown) {
	for i := range breakdowns {
		b := &breakdowns[i]
		b.BlockedOn = slices.Clone(b.BlockedOn) // the ledger tells the same list of a process that is over in each tick
		for j := range b.BlockedOn {
			x := &b.BlockedOn[j]
			x.At = s.places[x.Stack]
		}
	}
}

// age has the time of a tick pass, and forgets processes that have ended long ago.
func (s *sites) age(now time.Time, processes []tick.Process) {
	for _, list := range s.ops {
		for i := range list {
			list[i].ns *= fade
		}
	}
	for i := range processes {
		if p := &processes[i]; !p.Ended.IsZero() && now.Sub(p.Ended) > tick.ChainStays {
			s.forget(p.PID)
		}
	}
}

// place is where most of the time of an operation is from, "" where that is not known.
func (s *sites) place(k key) (at string) {
	most := 0.0
	for _, x := range s.ops[k] {
		if place := s.places[x.stack]; place != "" && x.ns > most {
			at, most = place, x.ns
		}
	}
	return at
}

// forget drops all of a process.
func (s *sites) forget(pid uint32) {
	for k := range s.ops {
		if k.pid == pid {
			delete(s.ops, k)
		}
	}
}
