package loop

import (
	"math"
	"strings"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// mostOpen bounds the open ranges of a thread.
const mostOpen = 64

// marked is the state of a thread that calls NVTX.
type marked struct {
	pid, tid uint32
	seen     uint64 // tick
	newest   int64  // Unix ns: latest event of the thread
	lost     uint32
	deep     int    // pushed ranges beyond the limit
	open     []span // outermost first
	names    map[string]*named
	ticked   int64 // Unix ns: newest, in the last tick with ranges of the main name
	phase    int64 // Unix ns: start of the current phase; 0: the main one
	// Events of this batch that are not yet added to their ranges.
	turns []int64 // Unix ns: ends of GPU waits
	waits []waited
	done  struct{ turns, waits int } // number already added to their ranges
}

// waited is a wait with its end time.
type waited struct {
	end int64
	namedTime
}

// span is a range that has not ended.
type span struct {
	name    *named // nil: no name
	started bool   // it ends by its number
	known   bool   // id is known
	again   bool   // inside a range of the same name
	id      uint64
	at      tick.Range
	step    turn
	turns   int
}

// Batch adds the NVTX calls and the waits of a batch, and the steps that the ledger derives from
// it. It does not retain them.
func (f *Finder) Batch(ranges []tick.Range, waits []events.Wait, steps []ledger.Step) {
	for i := range ranges {
		f.markedBy(&ranges[i])
	}
	f.Add(steps)
	if len(f.marked) == 0 {
		return
	}
	for i := range waits {
		if m := f.marked[waits[i].TID]; m != nil {
			m.wait(&waits[i])
		}
	}
	for i := range ranges {
		if m := f.markedBy(&ranges[i]); m != nil {
			f.call(m, &ranges[i])
		}
	}
	for _, m := range f.marked {
		m.settle(math.MaxInt64)
		m.turns, m.waits = m.turns[:0], m.waits[:0]
		m.done.turns, m.done.waits = 0, 0
	}
}

// markedBy returns the thread that made a call, or nil if there are too many.
func (f *Finder) markedBy(r *tick.Range) *marked {
	m := f.marked[r.TID]
	if m == nil && len(f.marked) >= maxThreads {
		return nil
	}
	if m == nil || m.pid != r.PID {
		f.forget(m)
		m = &marked{pid: r.PID, tid: r.TID, lost: r.Lost, names: map[string]*named{}}
		f.marked[r.TID] = m
	}
	m.seen, m.newest = f.ticks, max(m.newest, r.Time)
	return m
}

func (f *Finder) forget(m *marked) {
	if m != nil {
		f.names -= len(m.names)
		delete(f.marked, m.tid)
	}
}

// call takes in one call.
func (f *Finder) call(m *marked, r *tick.Range) {
	if r.Lost != m.lost { // the lost calls may have begun or ended ranges
		m.lost = r.Lost
		m.drop(0)
		m.deep = 0
	}
	m.settle(r.Time)
	switch does := rangeCalls[r.Op]; {
	case r.Flags&tick.RangeReturned != 0:
		if i := m.last(func(s *span) bool { return s.started && !s.known }); i >= 0 {
			m.open[i].id, m.open[i].known = r.ID, true
		}
	case does == begins, does == starts:
		f.begin(m, r, does == starts)
	case does == pops && m.deep > 0:
		m.deep--
	case does == pops:
		m.end(m.last(func(s *span) bool { return !s.started && s.at.Domain == r.Domain }), r)
	case does == ends:
		f.end(m, r)
	}
}

// Effects of calls on ranges.
const (
	begins = iota + 1
	starts
	pops
	ends
)

// rangeCalls maps operations to their effects.
var rangeCalls = func() map[events.Op]int {
	out := map[events.Op]int{}
	for i := range events.Catalog {
		r := &events.Catalog[i]
		for word, does := range map[string]int{"RangePush": begins, "RangeStart": starts, "RangePop": pops, "RangeEnd": ends} {
			if r.Lib == events.LibNVTX && strings.Contains(r.Name, word) {
				out[r.Op] = does
			}
		}
	}
	return out
}()

// last returns the index of the innermost selected open range, or -1.
func (m *marked) last(match func(*span) bool) int {
	for i := len(m.open) - 1; i >= 0; i-- {
		if match(&m.open[i]) {
			return i
		}
	}
	return -1
}

// begin opens a range.
func (f *Finder) begin(m *marked, r *tick.Range, started bool) {
	if len(m.open) == mostOpen {
		i := m.last(func(s *span) bool { return s.started })
		if i < 0 && !started {
			m.deep++
		}
		if i < 0 {
			return
		}
		m.remove(i) // it may never end
	}
	s := span{name: f.nameOf(m, r), started: started, at: *r}
	s.step.from = r.Time
	if n := s.name; n != nil {
		s.again = !started && n.open > 0 // started ranges may overlap
		if n.open == 0 && (n.first == 0 || !n.covers(r.Time)) {
			n.resume(r.Time)
		}
		n.open++
		n.in = nil
		if len(m.open) > 0 {
			n.in = m.open[len(m.open)-1].name
		}
	}
	m.open = append(m.open, s)
}

// end ends the range with a number, which another thread may have begun.
func (f *Finder) end(m *marked, r *tick.Range) {
	match := func(s *span) bool { return s.started && s.known && s.id == r.ID }
	if i := m.last(match); i >= 0 || r.ID == 0 {
		m.end(i, r)
		return
	}
	for _, o := range f.marked {
		if o.pid == m.pid && o != m {
			if i := o.last(match); i >= 0 {
				o.end(i, r)
				return
			}
		}
	}
}

// end counts a range and removes it. Pushed ranges inside it have ended too: the program left them
// without popping.
func (m *marked) end(i int, r *tick.Range) {
	if i < 0 {
		return
	}
	s := &m.open[i]
	if n := s.name; n != nil && !s.again && r.Time > s.at.Time {
		s.step.to, s.step.op = r.Time, r.Op
		s.step.times = between(&s.at, r)
		n.op = r.Op
		n.turns += uint64(s.turns)
		if s.turns > 0 || s.step.times.GPUWait > 0 {
			n.waits++
		}
		n.add(&s.step)
	}
	m.remove(i)
}

func (m *marked) remove(i int) {
	if n := m.open[i].name; n != nil {
		n.open--
	}
	m.open = append(m.open[:i], m.open[i+1:]...)
}

// drop removes the ranges from an index on.
func (m *marked) drop(from int) {
	for len(m.open) > from {
		m.remove(len(m.open) - 1)
	}
}

// between divides the time between two calls. For calls of two threads only the length is known.
func between(a, b *tick.Range) (t tick.StepTimes) {
	left := time.Duration(b.Time - a.Time)
	if a.TID != b.TID || (a.Flags|b.Flags)&tick.RangeUnaccounted != 0 {
		t.Unknown = left
		return t
	}
	more := func(now, was uint64) time.Duration { return time.Duration(now - min(was, now)) }
	off := func(now, was *tick.Times) (run, thr, blk time.Duration) {
		return more(now.Runnable, was.Runnable), more(now.Throttled, was.Throttled), more(now.Blocked, was.Blocked)
	}
	run, thr, blk := off(&b.InCalls, &a.InCalls)
	gapRun, gapThr, gapBlk := off(&b.Between, &a.Between)
	_, _, syncBlk := off(&b.Sync, &a.Sync)
	syncCPU := more(b.Sync.OnCPU, a.Sync.OnCPU)
	t = tick.StepTimes{Runnable: run + gapRun, Throttled: thr + gapThr, Blocked: max(0, blk-syncBlk) + gapBlk,
		GPUWait: syncCPU + syncBlk, CallCPU: max(0, more(b.InCalls.OnCPU, a.InCalls.OnCPU)-syncCPU), GapCPU: more(b.Between.OnCPU, a.Between.OnCPU)}
	for _, p := range t.Parts() {
		*p = min(*p, left)
		left -= *p
	}
	t.Unknown = left
	return t
}

// wait records a wait of the thread, unless it is a wait for the GPU.
func (m *marked) wait(w *events.Wait) {
	row := w.Op.Row()
	if w.State == events.WaitBlocked && row != nil && row.Class == events.ClassSync || m.pid != w.PID {
		return
	}
	x := ledger.Wait{NS: w.Duration, Count: 1, Who: w.Who, Call: w.Syscall, Dev: w.Dev, State: w.State, Reason: w.Reason, Flags: w.Flags}
	if w.State == events.WaitRunnable {
		x.NS = min(max(w.Taken, 0), w.Duration)
	}
	if w.Flags&events.WaitPrevious != 0 {
		x.Count = 0
	}
	if t, ok := namedTimeOf(&x, m.pid); ok {
		m.waits = append(m.waits, waited{w.End(), t})
	}
}

// settle adds the events before a time to the open ranges.
func (m *marked) settle(until int64) {
	for ; m.done.turns < len(m.turns) && m.turns[m.done.turns] <= until; m.done.turns++ {
		for i := range m.open {
			m.open[i].turns++
		}
	}
	for ; m.done.waits < len(m.waits) && m.waits[m.done.waits].end <= until; m.done.waits++ {
		w := &m.waits[m.done.waits]
		for i := range m.open {
			x := w.namedTime
			if x.ns = min(x.ns, w.end-m.open[i].step.from); x.ns > 0 {
				m.open[i].step.note(&x)
			}
		}
	}
}
