package ledger

import (
	"cmp"
	"math/bits"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	// periodNS is the step length of a thread without calls that close steps.
	periodNS = 1e9
	// longest bounds the length of a step; a record that exceeds it is wrong.
	longest = 24 * 3600e9
)

// thread is the state of one thread.
type thread struct {
	pid, tid uint32
	start    uint32 // as in events.Thread
	enrolled bool   // makes no traced calls: only its past matters
	hops     bool   // its waits had hops when it was enrolled: one without is of a thread that makes calls
	seen     uint64
	account  account // as of its last tick
	comm     string  // likewise
	names    *[tick.Places]names
	listing  listing
	proc     *process // nil before its first call
	past     past
	queue    []queued // waits not yet claimed by a call, from head on
	head     int

	steps  *openStep // nil before its first call
	closer rank      // rank that closes its steps; rankNone: time
	open   bool      // a step is open, since from
	from   int64     // Unix ns
	rhythm rhythm
	long   [4]longCall
	longs  int // number of long calls so far
	closed int // number of steps so far
}

// startedAt reports whether the thread was started at a time, as far as known. If not, another
// thread has reused its TID, and its activity is unknown.
func (t *thread) startedAt(start uint32) bool {
	switch {
	case start == 0 || t.start == start:
	case t.start == 0:
		t.start = start
	default:
		t.start, t.past = start, past{}
		return false
	}
	return true
}

// longCall is one of a thread's last long outermost calls: Unix ns.
type longCall struct {
	op         events.Op
	start, end int64
}

// longCallNS is the shortest long call.
const longCallNS = 100_000

// across returns the call that took more than half of a time, or 0.
func (t *thread) across(from, to int64) events.Op {
	for i := range t.long {
		if c := &t.long[i]; min(to, c.end)-max(from, c.start) > (to-from)/2 {
			return c.op
		}
	}
	return 0
}

// queued is a wait and what its waker did meanwhile.
type queued struct {
	events.Wait
	waker  tick.WakerShare
	forGIL int64 // as in Wait
	asked  bool
}

func (t *thread) waiting() int { return len(t.queue) - t.head }

// advance adds a measured outermost call to its thread's step, and closes the step if the call or
// the time does so.
func (l *Ledger) advance(t *thread, c *events.Call, f opFacts, end int64) {
	if f.rank != rankNone && f.rank >= t.closer {
		if f.rank == t.closer && t.open {
			t.steps.close(c)
			l.emit(t, c, end)
		}
		t.closer = f.rank
		t.restart(end)
		return
	}
	if !t.open {
		t.restart(end)
		return
	}
	t.steps.add(c, l.ops.size(c), f.launch)
	t.steps.tail.reset()
	t.rhythm.moved(end)
	switch {
	case t.closer == rankNone && end-t.from >= periodNS:
		l.emit(t, nil, end)
		t.restart(end)
	case t.closer != rankNone && t.rhythm.moving >= patienceNS:
		t.closer = rankNone
		t.restart(end)
	}
}

func (t *thread) restart(at int64) {
	first := !t.open
	t.open, t.from = true, at
	t.rhythm = rhythm{last: at}
	t.steps.reset()
	if first {
		t.steps.marks = MarkFirst
	}
}

// apply adds a wait to the names of its process and to its thread's step.
func (l *Ledger) apply(t *thread, q *queued) {
	if t.steps == nil || t.proc == nil {
		return // before its first call
	}
	w := &q.Wait
	f := l.ops.facts(w.Op)
	across := events.Op(0)
	if holder := l.threads[w.Who.TID]; w.Reason == events.ReasonGIL && holder != nil && holder.pid == w.Who.PID {
		across = holder.across(w.Start, w.End())
	}
	t.proc.named(t.pid, q, across, f.rank == rankSync, l.agent)
	t.named(q, f.rank == rankSync, across, l.agent)
	if !t.open {
		return
	}
	x := Wait{
		NS: w.Duration, Count: 1, First: w.Start, Last: w.End(), Who: w.Who, Op: w.Op, CPU: w.CPU, Call: w.Syscall,
		Dev: w.Dev, State: w.State, Reason: w.Reason, Flags: w.Flags, Waker: q.waker, ForGIL: q.forGIL, Stack: w.OwnStack(), longest: w.Duration,
		votes: votesOf(&q.waker), own: w.Who.PID == t.pid,
	}
	if q.asked {
		x.Asked = w.Duration
	}
	if x.Stack != 0 {
		x.stack = vote(w.Duration)
	}
	if w.State == events.WaitRunnable && (w.Who.TID != 0 || w.Flags&(events.WaitPrevious|events.WaitOthers) != 0) {
		x.NS = min(max(w.Taken, 0), w.Duration)
	}
	if w.Flags&events.WaitPrevious != 0 {
		x.Count = 0
	}
	if t.closer != rankNone && f.rank == t.closer {
		t.steps.tail.add(w, &x)
		return
	}
	t.steps.wait(w, &x)
}

// emit appends the step closed by a call, or by time (nil).
func (l *Ledger) emit(t *thread, c *events.Call, end int64) {
	length := end - t.from
	if length <= 0 || length > longest || len(l.steps) >= maxSteps {
		return
	}
	o := t.steps
	s := Step{PID: t.pid, TID: t.tid, From: t.from, To: end, Period: c == nil, Calls: o.calls, Launches: cmp.Or(o.counted, o.launches), Marks: o.marks, Graph: o.graph}
	s.Kind = uint32(bits.Len32(s.Launches))
	if c != nil {
		s.Op, s.Stack = c.Op, c.Stack
		s.GraphsKnown = c.Flags&(events.CallGraphs|events.CallNoGraphs) != 0
		s.Kind |= uint32(c.Op)<<16 | c.Tag&7<<8
		s.Loss = o.tail.loss(o, c)
		s.Behind = o.queue.behind(end, o.parts.GPUWait)
	}
	o.settle()
	s.Parts = o.parts
	s.Parts.fit(length)
	s.Lead = min(o.lead, s.Parts.CallCPU+s.Parts.GapCPU)
	s.CodeStack = o.codeStack

	from := len(l.opTimes)
	for i := range o.ops {
		o.ops[i].Slowest, o.ops[i].SlowestNS = o.long[i].slowest()
	}
	l.opTimes = append(l.opTimes, o.ops...)
	s.Ops = l.opTimes[from:len(l.opTimes):len(l.opTimes)]
	from = len(l.waits)
	l.waits = append(l.waits, o.waits...)
	s.Waits = l.waits[from:len(l.waits):len(l.waits)]
	l.steps = append(l.steps, s)
	if t.proc != nil && !s.Period {
		t.proc.step(length, &s.Loss)
		t.closed++
		t.proc.lastStep = max(t.proc.lastStep, end)
	}
}
