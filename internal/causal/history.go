package causal

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Bounds of the tables: processes, and host sums in total and per process.
const (
	maxHistories   = 512
	maxHostSamples = 1 << 14
)

// ProcessHistory has the facts of one process from the ticks of the last minute.
type ProcessHistory struct {
	PID         uint32
	Comm        string
	first       string                          // its first name
	Mapped      int64                           // Unix ns: when it mapped a traced library; 0: unknown
	MissedCalls bool                            // calls before the attach were not seen
	First       int64                           // Unix ns: start of the first second in which the process was known
	Called      int64                           // Unix ns: start of the first second with calls; 0: none so far
	Ended       int64                           // Unix ns; 0: still running
	Seconds     []Second                        // oldest first, at most windowSeconds
	Host        []HostSample                    // host events of the process, oldest first, over the same time
	faulty      uint64                          // Faulty before Seconds
	reclaimed   map[tick.HostEvent]reclaimShare // as last compared, by kind
	seen        uint64
	hists       map[events.Op]*stats.Hist // as of the last tick, of operations whose calls may have no record
}

// Second has the facts of one tick.
type Second struct {
	From, To int64 // Unix ns
	Ops      []OpSum
	Memory   tick.Memory // as of To
	Copies   []tick.Copy // so far
	Graphs   GraphSum
	Failed   uint64 // failed calls so far
	Faulty   uint64 // of Failed: with an error that a fault of the GPU makes
	Counted  bool   // launches were counted and not timed
	device   string // GPU that the process launches on, as of To; "": unknown, or several
}

// OpSum sums up a tick's calls of one operation.
type OpSum struct {
	Op     events.Op
	Calls  uint64
	Done   uint64 // returned and timed
	Errors uint64
	NS     uint64 // of the calls that returned
	Own    uint64 // of NS: outside nested traced calls
	Low    int64  // ns: 10th percentile of the calls that returned; 0: every call has a record
}

// GraphSum sums up a process's graphs at the end of a tick.
type GraphSum struct {
	All                       int
	Captures, Instantiated    uint64
	InstantiateFails, Updates uint64
	Launches                  uint64
}

// start returns the seconds from a process's first call on, nil if that call was not seen, or is no
// longer in the window.
func (b *ProcessHistory) start() []Second {
	if b.MissedCalls || b.Called == 0 {
		return nil
	}
	at := slices.IndexFunc(b.Seconds, func(s Second) bool { return s.From == b.Called })
	if at < 0 {
		return nil
	}
	return b.Seconds[at:]
}

// OpSum returns the sum of a second's calls of an operation.
func (s *Second) OpSum(op events.Op) (o OpSum) {
	if i, ok := slices.BinarySearchFunc(s.Ops, op, func(o OpSum, op events.Op) int { return cmp.Compare(o.Op, op) }); ok {
		return s.Ops[i]
	}
	return OpSum{Op: op}
}

// note adds a tick to the histories.
func (e *Engine) note(t *tick.Tick) {
	to := t.Time.UnixNano()
	from := to - int64(t.Window)
	e.makeRoom(t.Processes, from)
	for i := range t.Processes {
		p := &t.Processes[i]
		b := e.history(p, from)
		if b == nil {
			continue
		}
		b.Comm, b.first, b.seen, b.Ended = p.Comm, cmp.Or(b.first, p.Comm), e.ticks, 0
		b.MissedCalls = !p.Mapped.IsZero() && p.Attached.Sub(p.Mapped) > 100*time.Millisecond
		if !p.Mapped.IsZero() {
			b.Mapped = p.Mapped.UnixNano()
		}
		if !p.Ended.IsZero() {
			b.Ended = p.Ended.UnixNano()
		}
		if b.First == 0 {
			b.First = from
		}
		if len(b.Seconds) == windowSeconds {
			b.faulty = b.Seconds[0].Faulty
			b.Seconds = b.Seconds[1:] // append copies the rest about once a minute
		}
		b.Seconds = append(b.Seconds, Second{From: from, To: to, Counted: p.Counted, device: deviceIn(t, p, stateIn(t, p.PID))})
	}
	for i := range t.Ops {
		o := &t.Ops[i]
		if s := e.second(o.PID); s != nil && o.Last.Calls+o.Last.Done > 0 {
			b := e.histories[o.PID]
			if b.Called == 0 {
				b.Called = s.From
			}
			own := o.Last.Total - min(o.Last.Inner, o.Last.Total)
			s.Ops = append(s.Ops, OpSum{o.Op, o.Last.Calls, o.Last.Done, o.Last.Errors, o.Last.Total, own, b.low(o)})
		}
	}
	for i := range t.States {
		if s := e.second(t.States[i].PID); s != nil {
			s.state(&t.States[i])
		}
	}
	for i := range t.HostSums {
		e.host = append(e.host, HostSample{from, to, t.HostSums[i]})
		if b := e.histories[t.HostSums[i].PID]; b != nil && t.HostSums[i].PID != 0 {
			b.Host = append(b.Host, HostSample{from, to, t.HostSums[i]})
		}
	}
	e.devices.note(t)
	e.close(to)
}

// low returns the 10th percentile of a tick's calls of an operation in ns, by the kernel's
// histogram. It is 0 without a histogram, and for operations whose calls all have records.
func (b *ProcessHistory) low(o *tick.Op) int64 {
	if o.Hist == nil || factsOf(o.Op) == 0 {
		return 0
	}
	recent := *o.Hist
	if last := b.hists[o.Op]; last != nil {
		recent.Sub(last)
	}
	if b.hists == nil {
		b.hists = map[events.Op]*stats.Hist{}
	}
	b.hists[o.Op] = o.Hist
	return recent.Quantile(baselineQuantile)
}

// low returns the 10th percentile of an operation's calls in the last minute, ns; 0: unknown, or
// every call has a record.
func (e *Engine) low(pid uint32, op events.Op) int64 {
	b := e.histories[pid]
	if b == nil {
		return 0
	}
	v := e.scratch.values[:0]
	for i := range b.Seconds {
		if o := b.Seconds[i].OpSum(op); o.Low > 0 {
			v = append(v, weighted{o.Low, float64(o.Done)})
		}
	}
	e.scratch.values = v
	return quantile(v, baselineQuantile)
}

// close sorts the histories, trims old entries, and deletes those of processes that have ended.
func (e *Engine) close(now int64) {
	old := func(h HostSample) bool { return h.To < now-windowSeconds*1e9 }
	forget := func(list []HostSample) []HostSample {
		if len(list) > maxHostSamples {
			list = append(list[:0], list[len(list)-maxHostSamples:]...)
		}
		if len(list) > 0 && old(list[0]) {
			list = slices.DeleteFunc(list, old)
		}
		return list
	}
	e.host = forget(e.host)
	for pid, b := range e.histories {
		if e.ticks-b.seen > windowSeconds {
			delete(e.histories, pid)
			continue
		}
		if n := len(b.Seconds); n > 0 {
			slices.SortFunc(b.Seconds[n-1].Ops, func(x, y OpSum) int { return cmp.Compare(x.Op, y.Op) })
		}
		b.Host = forget(b.Host)
	}
}

// makeRoom evicts the histories of ended processes, those that ended first, for the new processes of a
// tick.
func (e *Engine) makeRoom(processes []tick.Process, from int64) {
	over := len(e.histories) - maxHistories
	for i := range processes {
		if p := &processes[i]; e.histories[p.PID] == nil && wasAlive(p, from) {
			over++
		}
	}
	if over <= 0 {
		return
	}
	var ended []*ProcessHistory
	for _, b := range e.histories {
		if b.Ended != 0 {
			ended = append(ended, b)
		}
	}
	slices.SortFunc(ended, func(a, b *ProcessHistory) int {
		return cmp.Or(cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.PID, b.PID))
	})
	for _, b := range ended[:min(over, len(ended))] {
		delete(e.histories, b.PID)
	}
}

// wasAlive reports whether a process ran in a tick that began at from.
func wasAlive(p *tick.Process, from int64) bool {
	return p.Ended.IsZero() || p.Ended.UnixNano() > from
}

// history returns the history of a process, nil if the table is full, or if the process ended before
// it got one.
func (e *Engine) history(p *tick.Process, from int64) *ProcessHistory {
	b := e.histories[p.PID]
	if b == nil && len(e.histories) < maxHistories && wasAlive(p, from) {
		b = &ProcessHistory{PID: p.PID}
		e.histories[p.PID] = b
	}
	return b
}

// second returns the last second of a process if it belongs to this tick, else nil.
func (e *Engine) second(pid uint32) *Second {
	b := e.histories[pid]
	if b == nil || b.seen != e.ticks || len(b.Seconds) == 0 {
		return nil
	}
	return &b.Seconds[len(b.Seconds)-1]
}

// stateIn returns the state of a process in a tick, or nil.
func stateIn(t *tick.Tick, pid uint32) *tick.State {
	if i, ok := slices.BinarySearchFunc(t.States, pid, func(s tick.State, pid uint32) int { return cmp.Compare(s.PID, pid) }); ok {
		return &t.States[i]
	}
	return nil
}

func (s *Second) state(x *tick.State) {
	s.Memory = x.Memory
	s.Copies = slices.Clone(x.Copies)
	s.Graphs.All = x.Graphs.All
	for i := range x.Graphs.First {
		g := &x.Graphs.First[i]
		if g.Captured != 0 {
			s.Graphs.Captures++
		}
		if g.Instantiated != 0 {
			s.Graphs.Instantiated++
		}
		s.Graphs.InstantiateFails += g.InstantiateFails
		s.Graphs.Updates += g.Updates
		s.Graphs.Launches += g.Launches
	}
	for i := range x.Errors.First {
		e := &x.Errors.First[i]
		if s.Failed += e.Count; isFaulty(e) {
			s.Faulty += e.Count
		}
	}
}

// delta returns the sum of the selected copies over the known time.
func (b *ProcessHistory) delta(match func(c *tick.Copy) bool) (sum tick.Copy) {
	if len(b.Seconds) == 0 {
		return sum
	}
	add := func(s *Second, sign int64) {
		for i := range s.Copies {
			if c := &s.Copies[i]; match(c) {
				sum.Count += c.Count * uint64(sign)
				sum.Bytes += c.Bytes * uint64(sign)
				sum.NS += c.NS * sign
			}
		}
	}
	add(&b.Seconds[len(b.Seconds)-1], 1)
	if first := &b.Seconds[0]; first.From != b.First {
		add(first, -1)
	}
	return sum
}
