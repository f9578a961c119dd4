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
	maxSites  = 16      // stacks kept per operation and process
	maxOpOf   = 1 << 12 // bound on operations of processes, and on awaited threads
	maxPlaces = 1 << 15 // bound on young and on old places: the number of stacks that the kernel remembers
	fade      = 0.99    // factor per tick that ages weights: chains last minutes
)

// sites tracks which stacks account for the time of each operation and of each awaited thread. It
// names the lines of code of chains.
type sites struct {
	places  places
	ops     tally[key]
	threads tally[threadKey]
	holders tally[threadKey]       // threads that held the GIL while others waited for it
	code    tally[uint32]          // processes' own code, between calls; does not age
	unknown map[uint32]int64       // by process: ns between calls that no sample has been charged with
	turns   map[threadKey]gilWaits // by thread that waits for the GIL
	usual   map[threadKey]float64  // by awaited thread: median length of the waits for it, ns
	chains  map[string]placed      // by chain: where its time went up to its last slow step
	aged    time.Time              // time of the last tick
}

// placed has the stacks of a chain, as of its last slow step. Their names may come later.
type placed struct {
	to      time.Time // the last slow step
	ops     tally[key]
	threads tally[threadKey] // culprits without a stack of their own
}

// gilWaits has the waits of a thread for the GIL while another thread holds it. Each lasts a few ms,
// since Python waits in turns.
type gilWaits struct {
	last     events.Wait
	ns       int64  // of consecutive waits that timed out, up to last
	unplaced int64  // of earlier waits that ended in a forced release at an unknown place
	forced   uint32 // stack of the last forced release, 0: unknown
}

// threadKey is a thread of a process.
type threadKey struct{ pid, tid uint32 }

// places has the place of each stack that was used lately. The kernel sends a stack again only after
// it has forgotten it, so a stack in use must stay, however many others come.
type places struct{ young, old map[uint32]place }

// place is the text of a stack's place, and of its caller if that tells more: see events.Stack.
type place struct{ at, caller string }

// add adds the place of a stack. When young is full, it becomes old, and the stacks that were old and
// not used meanwhile are evicted.
func (p *places) add(stack uint32, x place) {
	if p.young == nil || len(p.young) >= maxPlaces {
		p.young, p.old = map[uint32]place{}, p.young
	}
	p.young[stack] = x
}

// get returns the place of a stack, empty if it is unknown. The stack counts as used.
func (p *places) get(stack uint32) place {
	if stack == 0 {
		return place{}
	}
	x, young := p.young[stack]
	if !young {
		if x = p.old[stack]; x.at != "" {
			p.add(stack, x)
		}
	}
	return x
}

// use returns the text of a stack's place, "" if it is unknown. The stack counts as used.
func (p *places) use(stack uint32) string { return p.get(stack).at }

// withCaller returns the text of a stack's place and of its caller, if they are known. The stack counts as used.
func (p *places) withCaller(stack uint32) string {
	x := p.get(stack)
	if x.caller == "" {
		return x.at
	}
	return x.at + ", called by " + x.caller
}

// tally has the time spent in each stack.
type tally[K comparable] map[K][]site

type site struct {
	stack uint32
	ns    float64 // time of the calls that it represents, or of waits
}

func newSites() *sites {
	return &sites{ops: tally[key]{}, threads: tally[threadKey]{}, holders: tally[threadKey]{}, code: tally[uint32]{}, unknown: map[uint32]int64{}, turns: map[threadKey]gilWaits{}, usual: map[threadKey]float64{}}
}

// batch adds named stacks, calls, and waits for other threads.
func (s *sites) batch(stacks []events.Stack, calls []events.Call, waits []events.Wait) {
	for i := range stacks {
		x := &stacks[i]
		if at := x.Place(); at != "" {
			s.places.add(x.ID, place{at, x.Caller()})
		}
	}
	for i := range calls {
		c := &calls[i]
		s.places.use(c.Stack)
		s.places.use(c.GapStack)
		if c.Stack != 0 && c.Duration > 0 {
			s.ops.add(key{c.PID, c.Op}, c.Stack, float64(c.Duration)*float64(c.StackWeight()))
		}
		if c.GapOnCPU >= events.SampledGap {
			s.gap(c)
		}
	}
	for i := range waits {
		w := &waits[i]
		s.places.use(w.Stack)
		if w.Reason == events.ReasonGIL {
			s.turn(w)
		} else if w.Who.TID != 0 && w.State == events.WaitBlocked && w.Who.OfProgram() {
			s.wait(w)
		}
	}
}

// wait charges a wait to the stack of the thread that it was for: what it took longer than usual, since that
// is what a cause explains, and a little of the rest.
func (s *sites) wait(w *events.Wait) {
	const (
		step   = 0.05 // by which a wait moves the median
		leastW = 0.01 // weight of usual time
		longer = 1.25 // times the median: waits up to that are usual
	)
	of, ns := threadKey{w.Who.PID, w.Who.TID}, float64(w.Duration)
	usual, known := s.usual[of]
	switch {
	case !known:
		if len(s.usual) >= maxOpOf {
			clear(s.usual)
		}
		usual = ns
	case ns < usual:
		usual -= usual * step
	default:
		usual += usual * step
	}
	s.usual[of] = usual
	if w.Stack != 0 {
		s.threads.add(of, w.Stack, max(ns-longer*usual, 0)+ns*leastW)
	}
}

// gap charges a time on a CPU between two calls to its stack. A short one is sampled only if the clock
// ticks in it, and then stands for others like it. Samples are fewer where they would cost too much, so
// each also takes a part of the time that is left.
func (s *sites) gap(c *events.Call) {
	const (
		everyTick = 1e9 / events.SampleHz
		partLeft  = 8
	)
	if _, known := s.unknown[c.PID]; !known && len(s.unknown) >= maxOpOf {
		clear(s.unknown)
	}
	s.unknown[c.PID] += c.GapOnCPU
	if c.GapStack == 0 {
		return
	}
	chance := min(1, float64(c.GapOnCPU-events.SampledGap)/everyTick)
	ns := min(int64(float64(c.GapOnCPU)/max(chance, 1e-3)), s.unknown[c.PID])
	ns += (s.unknown[c.PID] - ns) / partLeft
	s.code.add(c.PID, c.GapStack, float64(ns))
	s.unknown[c.PID] -= ns
}

// turn charges the time of a GIL wait, and of waits before it, to the holder's stack. A holder that
// releases the GIL by itself (a sleep, a read) is charged for the last wait only. A holder that is
// forced to is charged for all of them, and for earlier forced releases at unknown places.
func (s *sites) turn(w *events.Wait) {
	const long = 1e9 // ns: the holder has moved on meanwhile
	if w.Who.TID == 0 {
		return
	}
	k := threadKey{w.PID, w.TID}
	t, known := s.turns[k]
	apart := w.Start - t.last.End()
	if t.last.Who.TID != w.Who.TID || apart > long {
		t = gilWaits{}
	} else if !w.Continues(&t.last, apart) {
		t.ns, t.unplaced = 0, t.unplaced+t.ns
	}
	switch {
	case w.Stack == 0:
		t.ns += w.Duration
	case t.ns > 0:
		s.chargeHolder(w, w.Stack, w.Duration+t.ns)
		t.ns, t.forced = 0, w.Stack
	default:
		s.chargeHolder(w, w.Stack, w.Duration)
	}
	if t.forced != 0 {
		s.chargeHolder(w, t.forced, t.unplaced)
		t.unplaced = 0
	}
	if t.last = *w; !known && len(s.turns) >= maxOpOf {
		clear(s.turns)
	}
	s.turns[k] = t
}

// chargeHolder charges time in which w's holder had the GIL to one of its stacks.
func (s *sites) chargeHolder(w *events.Wait, stack uint32, ns int64) {
	if ns > 0 {
		s.threads.add(threadKey{w.Who.PID, w.Who.TID}, stack, float64(ns))
		s.holders.add(threadKey{w.Who.PID, w.Who.TID}, stack, float64(ns))
	}
}

// add charges time to a stack. A full list keeps the stacks with the most time. A new stack
// inherits the time of the one it evicts, so its sum is an upper bound.
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

// setChains sets the place of each chain within an operation, and the places of its culprits. Known places
// stay until the chain's next slow step: a later wait, as for the exit of a worker, cost no step.
func (s *sites) setChains(chains []tick.Chain) {
	before := s.chains
	s.chains = make(map[string]placed, len(chains))
	for i := range chains {
		c := &chains[i]
		was, ok := before[c.ID]
		if !ok || !was.to.Equal(c.To) {
			was = placed{c.To, tally[key]{}, tally[threadKey]{}}
		}
		s.chains[c.ID] = was
		c.At = cmp.Or(s.places.use(c.Stack), was.ops.keep(s.ops, key{c.PID, c.Op}, &s.places))
		for j := range c.Culprits {
			x := &c.Culprits[j]
			another := x.Thread.OfProgram() && x.Thread.TID != c.TID
			switch {
			case x.Stack != 0 && !another:
				x.At = s.places.withCaller(x.Stack)
			case x.What != "" || len(x.CPUs) == 0 && x.Path == "": // else it only took a CPU: no thread waited
				who := threadKey{x.Thread.PID, x.Thread.TID}
				x.At = was.threads.keep(s.threads, who, &s.places)
				x.At = s.places.withCaller(was.threads.stackAt(who, x.At, &s.places))
			}
			if x.Waited = ""; another && x.At == "" {
				x.Waited = s.places.use(x.Stack)
			}
		}
	}
}

// keep returns the place of a key; if it is unknown, the place in another tally, which is kept here.
func (t tally[K]) keep(from tally[K], k K, in *places) string {
	if at := t.place(k, in); at != "" {
		return at
	}
	t[k] = slices.Clone(from[k])
	return t.place(k, in)
}

// thread returns where a thread spent most of the time that others waited for it, "" if unknown.
func (s *sites) thread(t *events.Thread) string {
	return s.threads.place(threadKey{t.PID, t.TID}, &s.places)
}

// setRanks sets the places of ranks that are missing from collectives.
func (s *sites) setRanks(calls []tick.RollCall) {
	for i := range calls {
		missing := calls[i].Missing
		for j := range missing {
			m := &missing[j]
			m.At = s.ops.place(key{m.PID, cmp.Or(m.Open.Op, m.Last.Op)}, &s.places)
		}
	}
}

// setBreakdowns sets the places of lock holders, of awaited threads, and of the processes' own code.
func (s *sites) setBreakdowns(breakdowns []tick.Breakdown) {
	for i := range breakdowns {
		b := &breakdowns[i]
		var code []tick.CodeTime
		for _, x := range s.code[b.PID] {
			if at := s.places.use(x.stack); at != "" {
				code = append(code, tick.CodeTime{At: at, NS: min(uint64(x.ns), b.GapCPU)}) // ns may be too large: see add
			}
		}
		b.Code = tick.AddCode(nil, code)
		b.BlockedOn = slices.Clone(b.BlockedOn) // the ledger reuses the list of an ended process in each tick
		for j := range b.BlockedOn {
			x := &b.BlockedOn[j]
			if x.At = s.places.use(x.Stack); x.Reason == events.ReasonGIL {
				x.At = cmp.Or(s.holders.place(threadKey{x.Who.PID, x.Who.TID}, &s.places), x.At)
			}
			if w := x.Waker; w != nil && w.Root.TID != 0 {
				x.WakerAt = s.thread(&w.Root)
			} else if w != nil {
				x.WakerAt = s.thread(&x.Who)
			}
		}
	}
}

// age ages the weights by one tick. It forgets a process once, in the first tick in which it ended long
// ago: another process may have its number later.
func (s *sites) age(now time.Time, processes []tick.Process) {
	s.ops.age()
	s.threads.age()
	s.holders.age()
	for i := range processes {
		over := processes[i].Ended.Add(tick.ChainStays)
		if !processes[i].Ended.IsZero() && over.Before(now) && !over.Before(s.aged) {
			s.forget(processes[i].PID)
		}
	}
	s.aged = now
}

func (t tally[K]) age() {
	for _, list := range t {
		for i := range list {
			list[i].ns *= fade
		}
	}
}

// place returns the place with the most time, "" if unknown. Several stacks can have one place.
func (t tally[K]) place(k K, in *places) (at string) {
	sums, most := map[string]float64{}, 0.0
	for _, x := range t[k] {
		place := in.use(x.stack)
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

// stackAt returns the stack with the most time at a place, 0 if there is none.
func (t tally[K]) stackAt(k K, at string, in *places) (stack uint32) {
	most := 0.0
	for _, x := range t[k] {
		if at != "" && x.ns > most && in.use(x.stack) == at {
			stack, most = x.stack, x.ns
		}
	}
	return stack
}

// forget drops all data of a process.
func (s *sites) forget(pid uint32) {
	maps.DeleteFunc(s.ops, func(k key, _ []site) bool { return k.pid == pid })
	maps.DeleteFunc(s.threads, func(k threadKey, _ []site) bool { return k.pid == pid })
	maps.DeleteFunc(s.holders, func(k threadKey, _ []site) bool { return k.pid == pid })
	delete(s.code, pid)
	delete(s.unknown, pid)
	maps.DeleteFunc(s.usual, func(k threadKey, _ float64) bool { return k.pid == pid })
	maps.DeleteFunc(s.turns, func(k threadKey, _ gilWaits) bool { return k.pid == pid })
}
