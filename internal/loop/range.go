package loop

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	mostOpen  = 64   // ranges of a thread at a time
	mostNames = 32   // of a thread's ranges
	allNames  = 1024 // of all threads' ranges

	covering = 0.5 // of the time, that the ranges of steps cover at least
	asMuch   = 0.7 // of what covers most: as good a candidate
	waiting  = 0.7 // of the steps wait for the GPU
	epoch    = 16  // steps or more are in a range that is none itself
)

// marked is what is kept of a thread that calls NVTX.
type marked struct {
	pid, tid uint32
	seen     uint64 // tick
	newest   int64  // Unix ns: of what was seen of the thread
	lost     uint32
	deep     int    // ranges that were pushed when there was no room
	open     []span // outermost first
	names    map[string]*named
	// Of this batch, not yet in the ranges that they fell into.
	turns []int64 // Unix ns: waits for the GPU ended
	waits []waited
	done  struct{ turns, waits int } // of these: that are in their ranges
}

// waited is a wait, and when it ended.
type waited struct {
	end int64
	took
}

// named are the ranges of one name, whatever numbers are in it.
type named struct {
	found
	show  string
	first int64 // Unix ns: the first began
	open  int   // not ended
	turns uint64
	waits uint64 // those that waited for the GPU
}

// span is a range that has not ended.
type span struct {
	name    *named // nil: it has none
	started bool   // it ends by its number
	known   bool   // id is its number
	again   bool   // it is within one of its name
	id      uint64
	at      tick.Range
	step    turn
	turns   int
}

// Ranges takes in the calls of NVTX of a batch, whose turns were added before. It does
// not keep it.
func (f *Finder) Ranges(b *tick.Batch) {
	if len(f.marked) == 0 && len(b.Ranges) == 0 {
		return
	}
	for i := range b.Waits {
		if m := f.marked[b.Waits[i].TID]; m != nil && len(m.open) > 0 {
			m.wait(&b.Waits[i])
		}
	}
	for i := range b.Ranges {
		if m := f.markedBy(&b.Ranges[i]); m != nil {
			f.call(m, &b.Ranges[i])
		}
	}
	for _, m := range f.marked {
		m.settle(math.MaxInt64)
		m.turns, m.waits = m.turns[:0], m.waits[:0]
		m.done.turns, m.done.waits = 0, 0
	}
}

// markedBy returns the thread that made a call, nil where there are too many.
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

// call takes one call in.
func (f *Finder) call(m *marked, r *tick.Range) {
	if r.Lost != m.lost { // what begins or ends what is no longer known
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

// What a call does to ranges.
const (
	begins = iota + 1
	starts
	pops
	ends
)

// rangeCalls says it of each operation.
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

// last returns the place of the innermost open range that is asked for, -1: none is.
func (m *marked) last(is func(*span) bool) int {
	for i := len(m.open) - 1; i >= 0; i-- {
		if is(&m.open[i]) {
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
		m.remove(i) // nobody may end it
	}
	s := span{name: f.nameOf(m, r), started: started, at: *r}
	s.step.from = r.Time
	if n := s.name; n != nil {
		s.again = n.open > 0
		n.open++
		if n.first == 0 {
			n.first = r.Time
		}
	}
	m.open = append(m.open, s)
}

// end ends the range of a number, which another thread may have begun.
func (f *Finder) end(m *marked, r *tick.Range) {
	is := func(s *span) bool { return s.started && s.known && s.id == r.ID }
	if i := m.last(is); i >= 0 || r.ID == 0 {
		m.end(i, r)
		return
	}
	for _, o := range f.marked {
		if o.pid == m.pid && o != m {
			if i := o.last(is); i >= 0 {
				o.end(i, r)
				return
			}
		}
	}
}

// end counts a range and forgets it. Those within that were pushed have ended too: who
// pops without looking has jumped out of them.
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

// drop forgets the ranges from a place on.
func (m *marked) drop(from int) {
	for len(m.open) > from {
		m.remove(len(m.open) - 1)
	}
}

// between is where the time between two calls went. Of two threads only its length is known.
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

// wait notes a wait of the thread, unless it is what it waits for the GPU.
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
	if t, ok := tookOf(&x, m.pid); ok {
		m.waits = append(m.waits, waited{w.End(), t})
	}
}

// settle adds what was before a time to the ranges that are open.
func (m *marked) settle(until int64) {
	for ; m.done.turns < len(m.turns) && m.turns[m.done.turns] <= until; m.done.turns++ {
		for i := range m.open {
			m.open[i].turns++
		}
	}
	for ; m.done.waits < len(m.waits) && m.waits[m.done.waits].end <= until; m.done.waits++ {
		w := &m.waits[m.done.waits]
		for i := range m.open {
			x := w.took
			if x.ns = min(x.ns, w.end-m.open[i].step.from); x.ns > 0 {
				m.open[i].step.note(&x)
			}
		}
	}
}

// nameOf returns the ranges of a name, nil where it is not known or there is no room.
func (f *Finder) nameOf(m *marked, r *tick.Range) *named {
	var buf [tick.MaxRangeName + 1]byte
	key := fold(buf[:0], r)
	if len(key) == 0 {
		return nil
	}
	raw := r.Name[:r.Length]
	if n := m.names[string(key)]; n != nil {
		if len(raw) > 0 && n.show != string(raw) {
			n.show = string(key)
		}
		return n
	}
	if len(m.names) >= mostNames || f.names >= allNames {
		if !m.makeRoom() {
			return nil
		}
		f.names--
	}
	n := &named{show: string(key)}
	if len(raw) > 0 {
		n.show = string(raw)
	}
	m.names[string(key)] = n
	f.names++
	return n
}

// makeRoom forgets the name that least of the time went to.
func (m *marked) makeRoom() bool {
	least, at := (*named)(nil), ""
	for key, n := range m.names {
		if n.open == 0 && (least == nil || cmp.Or(cmp.Compare(n.total, least.total), cmp.Compare(n.first, least.first), cmp.Compare(key, at)) < 0) {
			least, at = n, key
		}
	}
	delete(m.names, at)
	return least != nil
}

// fold appends a name without the numbers in it, for many programs count their steps
// there: "step 17" is "step #". One that is not known goes by its address.
func fold(to []byte, r *tick.Range) []byte {
	if r.Length == 0 {
		if r.ID == 0 {
			return to
		}
		return strconv.AppendUint(append(to, "(unread, at 0x"...), r.ID, 16)
	}
	digits := false
	for _, c := range r.Name[:r.Length] {
		is := c >= '0' && c <= '9'
		switch {
		case !is:
			to = append(to, c)
		case !digits:
			to = append(to, '#')
		}
		digits = is
	}
	return to
}

// main is the name whose ranges are the steps of the thread, nil: none is.
func (m *marked) main() (best *named) {
	var list []*named
	for _, n := range m.names {
		if n.lengths.Count() >= leastSteps && float64(n.total) >= covering*float64(m.newest-n.first) {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *named) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.first, b.first), cmp.Compare(a.show, b.show))
	})
	for _, n := range list {
		if best == nil || float64(n.total) >= asMuch*float64(list[0].total) && n.steps() && n.lengths.Count() >= epoch*best.lengths.Count() {
			best = n
		}
	}
	return best
}

// steps tells whether these ranges wait for the GPU, as steps do.
func (n *named) steps() bool { return float64(n.waits) >= waiting*float64(n.lengths.Count()) }

// tell returns the loop as a tick has it.
func (n *named) tell(tid uint32) *tick.Loop {
	out := n.found.tell(tid)
	out.Range = strings.ToValidUTF8(n.show, "?")
	out.Waits = int((n.turns + n.lengths.Count()/2) / n.lengths.Count())
	return out
}
