package rollcall

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ingero/internal/tick"
)

// Limits of the kept data.
const (
	keptEntries = 1 << 10 // of a rank, latest
	keptSpreads = 64      // of a communicator, latest
	maxMembers  = 1 << 12
	maxKilled   = 1 << 10
	maxLates    = 1 << 12 // of a communicator, per tick
	leastLate   = 200 * time.Microsecond
)

// Roll tracks which collectives the ranks have entered. It is for one goroutine.
type Roll struct {
	members map[uint64]*member // by number of the communicator
	groups  map[uint64]*group  // by ID of the communicator
	over    map[uint64]bool    // numbers of forgotten communicators; whether the current tick still has them
	killed  map[uint32]tick.Ending
	ended   map[uint32]tick.Ending // since the last tick
	before  int64                  // Unix ns: last tick
}

// New returns an empty Roll.
func New() *Roll {
	return &Roll{members: map[uint64]*member{}, groups: map[uint64]*group{}, over: map[uint64]bool{},
		killed: map[uint32]tick.Ending{}, ended: map[uint32]tick.Ending{}}
}

// member is a rank of a communicator.
type member struct {
	tick.Rank
	comm    tick.Comm
	end     tick.Ending
	entries []tick.Entry // by number of the collective, modulo keptEntries
	kept    uint64       // number of valid entries, the latest ones
	inTick  bool         // the current tick has the rank
}

// entered returns the rank's entry into a collective, zero if no longer known.
func (m *member) entered(seq uint64) tick.Entry {
	if seq == 0 || seq > m.comm.Collectives || seq+m.kept <= m.comm.Collectives {
		return tick.Entry{}
	}
	return m.entries[seq%keptEntries]
}

// active reports whether the rank may still enter a collective.
func (m *member) active() bool { return m.end.Time == 0 && m.comm.State == tick.CommActive }

// group has the known ranks of a communicator.
type group struct {
	members []*member
	done    uint64             // collectives that all ranks have entered
	spreads [keptSpreads]int64 // latest times from the first rank's entry to the last's, ns
}

// Batch records how processes ended.
func (r *Roll) Batch(lives []tick.ProcEvent) {
	for i := range lives {
		e := &lives[i]
		end := tick.Ending{Time: e.Time}
		switch e.Kind {
		case tick.ProcKilled:
			end.Signal, end.By, end.Comm = e.Signal, e.Peer, e.Comm
			end.OOM = r.killed[e.PID].OOM
			r.kill(e.PID, end)
		case tick.ProcOOM:
			end.OOM = true
			r.kill(e.PID, end)
		case tick.ProcExited, tick.ProcExeced:
			if k, ok := r.killed[e.PID]; ok && e.Kind == tick.ProcExited {
				end = k
				end.Time = e.Time
			}
			end.Exec = e.Kind == tick.ProcExeced
			delete(r.killed, e.PID)
			r.ended[e.PID] = end
		}
	}
}

func (r *Roll) kill(pid uint32, end tick.Ending) {
	if len(r.killed) >= maxKilled {
		clear(r.killed)
	}
	r.killed[pid] = end
}

// Tick adds the states of a tick. It returns the collectives with missing ranks, and how long ranks
// were waited for, by communicator.
func (r *Roll) Tick(at time.Time, states []tick.State, threads []tick.Thread) (calls []tick.RollCall, lates []tick.Straggler) {
	for _, m := range r.members {
		m.inTick = false
	}
	for number := range r.over {
		r.over[number] = false
	}
	for i := range states {
		r.state(&states[i])
	}
	maps.DeleteFunc(r.over, func(_ uint64, inTick bool) bool { return !inTick })
	for _, m := range r.members {
		m.comm.Inexact = m.comm.Inexact || !m.inTick && m.end.Time == 0 // over the limit of the list
		if end, ok := r.ended[m.PID]; ok && m.end.Time == 0 && end.Time >= m.comm.Began {
			m.end = end
		}
	}
	clear(r.ended)
	now := at.UnixNano()
	for _, id := range slices.Sorted(maps.Keys(r.groups)) {
		g := r.groups[id]
		if !slices.ContainsFunc(g.members, (*member).active) {
			r.forget(id, g)
			continue
		}
		lates = g.measure(id, lates)
		if c := g.call(now, r.before, threads); c != nil {
			calls = append(calls, *c)
		}
	}
	r.before = now
	return calls, lates
}

// state updates the communicators of a process.
func (r *Roll) state(s *tick.State) {
	var entries map[uint64][]tick.Entry
	for _, e := range s.Entered {
		if entries == nil {
			entries = map[uint64][]tick.Entry{}
		}
		entries[e.Comm] = append(entries[e.Comm], e)
	}
	for i := range s.Comms.First {
		c := &s.Comms.First[i]
		if c.ID == 0 || c.Began == 0 {
			continue
		}
		m := r.members[c.Number]
		if m == nil {
			if m = r.join(s.PID, c); m == nil {
				continue
			}
		}
		entered := entries[c.Number]
		if c.Collectives-m.comm.Collectives != uint64(len(entered)) { // entries were dropped
			m.kept = 0
		}
		m.comm, m.inTick = *c, true
		for j, e := range entered {
			m.entries[(c.Collectives-uint64(len(entered)-1-j))%keptEntries] = e
		}
		m.kept = min(m.kept+uint64(len(entered)), keptEntries)
	}
}

// join adds a new rank. It returns nil if there is no room, or if the rank was forgotten: the state
// of an ended process is kept for a while.
func (r *Roll) join(pid uint32, c *tick.Comm) *member {
	if _, over := r.over[c.Number]; over {
		r.over[c.Number] = true
		return nil
	}
	if len(r.members) >= maxMembers || c.State != tick.CommActive {
		return nil
	}
	m := &member{Rank: tick.Rank{Rank: c.Rank, PID: pid}, entries: make([]tick.Entry, keptEntries)}
	r.members[c.Number] = m
	g := r.groups[c.ID]
	if g == nil {
		g = &group{}
		r.groups[c.ID] = g
	}
	g.members = append(g.members, m)
	slices.SortFunc(g.members, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.Rank.Rank, b.Rank.Rank), cmp.Compare(a.PID, b.PID))
	})
	return m
}

// forget drops a communicator without active ranks.
func (r *Roll) forget(id uint64, g *group) {
	delete(r.groups, id)
	for _, m := range g.members {
		delete(r.members, m.comm.Number)
		r.over[m.comm.Number] = true
	}
}

// measure updates the spreads of collectives that all ranks have entered, and appends the times
// that a rank was waited for.
func (g *group) measure(id uint64, lates []tick.Straggler) []tick.Straggler {
	all, exact := uint64(1<<64-1), true
	for _, m := range g.members {
		all, exact = min(all, m.comm.Collectives), exact && !m.comm.Inexact
	}
	switch {
	case len(g.members) < 2: // nobody here waits for the only rank that is known
		g.done = all
	case all > g.done+keptEntries:
		g.done = all - keptEntries
	}
	own := len(lates) // start of this communicator's
	for ; g.done < all; g.done++ {
		first, second, last, who := g.spread(g.done + 1)
		if first == 0 || !exact {
			continue
		}
		g.spreads[g.done%keptSpreads] = last - first
		if n := len(lates); n > own && lates[n-1].Rank == who.Rank && second <= lates[n-1].To { // of one group of calls
			lates[n-1].To = max(lates[n-1].To, last)
		} else if last-second >= int64(leastLate) && n-own < maxLates {
			lates = append(lates, tick.Straggler{Comm: id, From: second, To: last, Rank: who.Rank})
		}
	}
	return lates
}

// spread returns when the first, the last but one, and the last rank entered a collective, and the
// last rank; first is 0 unless all are known.
func (g *group) spread(seq uint64) (first, second, last int64, who *member) {
	for _, m := range g.members {
		at := m.entered(seq).Time
		if at == 0 {
			return 0, 0, 0, nil
		}
		if first == 0 || at < first {
			first = at
		}
		if at > last {
			second, last, who = last, at, m
		} else {
			second = max(second, at)
		}
	}
	return first, second, last, who
}

// patience returns how long a rank may be missing.
func (g *group) patience() time.Duration {
	const least, times = time.Second, 4
	s := g.spreads
	slices.Sort(s[:])
	return max(least, times*time.Duration(s[keptSpreads*95/100]))
}
