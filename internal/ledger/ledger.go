package ledger

import (
	"maps"
	"slices"

	"ingero/pkg/events"
)

// Limits for any input.
const (
	maxThreads   = 8192
	maxProcesses = 2048
	maxSteps     = 1 << 16 // of one Batch
	maxPending   = 4096    // waits of a thread, between two batches, not yet claimed by a call
	maxPendings  = 1 << 16 // of all threads
	idleTicks    = 60      // after which a silent thread or an ended process is dropped
)

// kthreadd is the parent of all kernel threads.
const kthreadd = 2

// Ledger keeps the accounts. It is not safe for concurrent use.
type Ledger struct {
	agent   uint32
	threads map[uint32]*thread // by TID
	procs   map[uint32]*process
	last    *thread // of the last call or wait
	ops     opTable
	newest  int64     // Unix ns: the latest end of a call or wait
	ticks   uint64    // so far
	pending int       // waits not yet claimed by a call
	full    []*thread // that had more than maxPending of them in the current batch

	steps   []Step
	opTimes []OpTime // backing array of the steps' Ops
	waits   []Wait
}

// New returns an empty ledger. agentPID is the PID of ingero itself, marked where it had a CPU that
// a traced thread wanted.
func New(agentPID uint32) *Ledger {
	return &Ledger{
		agent:   agentPID,
		threads: map[uint32]*thread{},
		procs:   map[uint32]*process{},
		ops:     newOpTable(),
	}
}

// Batch adds the waits and the calls of one poll. It does not retain them. It returns the steps
// that they closed, in the order of the closing calls. The steps are valid until the next Batch.
func (l *Ledger) Batch(waits []events.Wait, calls []events.Call) []Step {
	l.steps, l.opTimes, l.waits = l.steps[:0], l.opTimes[:0], l.waits[:0]
	for i := range waits {
		l.wait(&waits[i])
	}
	for i := range calls {
		if c := &calls[i]; c.Flags&events.CallNested == 0 {
			l.call(c)
		}
	}
	l.bound()
	return l.steps
}

// bound applies waits of threads that have too many pending ones. All calls of the batch have
// claimed theirs, so the rest belongs to the open steps.
func (l *Ledger) bound() {
	for _, t := range l.full {
		if n := t.waiting(); n > maxPending && l.threads[t.tid] == t {
			l.applyUntil(t, t.head+n-maxPending/2)
		}
	}
	l.full = l.full[:0]
	if l.pending <= maxPendings {
		return
	}
	for _, tid := range slices.Sorted(maps.Keys(l.threads)) {
		t := l.threads[tid]
		l.applyUntil(t, len(t.queue))
	}
}

// thread returns the account of a thread, or nil if the table is full.
func (l *Ledger) thread(pid, tid uint32) *thread {
	if t := l.last; t != nil && t.tid == tid && t.pid == pid {
		return t
	}
	t := l.threads[tid]
	if t != nil && t.pid != pid { // the TID was reused by another process
		l.forget(t)
		t = nil
	}
	if t == nil {
		if len(l.threads) >= maxThreads {
			return nil
		}
		t = &thread{pid: pid, tid: tid}
		l.threads[tid] = t
	}
	t.seen = l.ticks
	l.last = t
	return t
}

// process returns a process's account, or nil if the table is full.
func (l *Ledger) process(pid uint32) *process {
	p := l.procs[pid]
	if p == nil {
		if len(l.procs) >= maxProcesses {
			return nil
		}
		p = &process{pid: pid}
		l.procs[pid] = p
	}
	p.seen, p.over = l.ticks, nil
	return p
}

// forget drops a thread and adds its account to its process.
func (l *Ledger) forget(t *thread) {
	if t.proc != nil {
		t.proc.done.add(&t.account)
		t.proc.leave(t)
	}
	l.pending -= t.waiting()
	delete(l.threads, t.tid)
	if l.last == t {
		l.last = nil
	}
}

// call takes in an outermost call.
func (l *Ledger) call(c *events.Call) {
	t := l.thread(c.PID, c.TID)
	if t == nil {
		return
	}
	t.seen = l.ticks
	if t.steps == nil {
		t.steps, t.enrolled = &openStep{}, false
		t.proc = l.process(c.PID)
	}
	f := l.ops.facts(c.Op)
	t.steps.marks |= f.marks | marksBy(c, f)
	if f.marks&MarkGraph != 0 && t.steps.graph == 0 {
		t.steps.graph, _ = c.Value(events.RoleExec)
	}
	if c.Flags&events.CallUnmeasured != 0 || !sane(c.Start, c.Duration) {
		t.steps.count(c, l.ops.size(c), f.launch)
		return
	}
	end := c.Start + c.Duration
	if c.Duration >= longCallNS {
		t.long[t.longs%len(t.long)] = longCall{c.Op, c.Start, end}
		t.longs++
	}
	l.newest = max(l.newest, end)
	if t.head < len(t.queue) {
		l.claim(t, end)
	}
	l.advance(t, c, f, end)
}

// claim applies the waits that began before a time.
func (l *Ledger) claim(t *thread, before int64) {
	end := t.head
	for end < len(t.queue) && t.queue[end].Start < before {
		end++
	}
	l.applyUntil(t, end)
}

// applyUntil applies the waits in front of an index of the queue.
func (l *Ledger) applyUntil(t *thread, end int) {
	attributeGIL(t.queue[t.head:end])
	for ; t.head < end; t.head++ {
		l.apply(t, &t.queue[t.head])
		l.pending--
	}
	if t.head == len(t.queue) {
		t.queue, t.head = t.queue[:0], 0
	}
}

// sane reports whether a time is plausible. Other times would spoil the sums.
func sane(start, duration int64) bool {
	return start >= 0 && start < 1<<62 && duration >= 0 && duration <= longest
}

// wait queues a wait until the call that contains it is seen.
func (l *Ledger) wait(w *events.Wait) {
	if !sane(w.Start, w.Duration) || w.State < events.WaitRunnable || w.State > events.WaitBlocked || int(w.Reason) >= Reasons {
		return
	}
	t := l.thread(w.PID, w.TID)
	if t == nil {
		return
	}
	t.seen = l.ticks
	l.newest = max(l.newest, w.End())
	t.past.add(w)
	t.hops = t.hops || w.Hop > 0
	t.enrolled = t.steps == nil && (w.Hop > 0 || t.enrolled && !t.hops)
	if t.enrolled {
		return
	}
	if t.head > 0 && len(t.queue) == cap(t.queue) {
		t.queue = t.queue[:copy(t.queue, t.queue[t.head:])]
		t.head = 0
	}
	t.queue = append(t.queue, queued{Wait: *w})
	l.pending++
	if t.waiting() == maxPending+1 {
		l.full = append(l.full, t)
	}
	if w.Flags&events.WaitPrevious == 0 {
		q := &t.queue[len(t.queue)-1]
		q.waker, q.forGIL = l.behind(t, w)
		q.asked = l.asked(t, w)
	}
}

// attributeGIL sets the holder of the GIL for which a thread has waited, and the place. Python's
// threads wait in turns of a few milliseconds: the thread that releases the GIL has held it all
// along. The waits belong to one thread, and to one call or the gap before it.
func attributeGIL(waits []queued) {
	var after *queued                // later wait that names the holder
	since, ran := int64(0), int64(0) // ran: on a CPU, between the end of a wait and the next blocked one
	for i := len(waits) - 1; i >= 0; i-- {
		q := &waits[i]
		ran += since - q.End()
		switch {
		case q.State != events.WaitBlocked: // waited for a CPU
		case q.Reason != events.ReasonGIL:
			after = nil
		case after != nil && q.Stack == 0 && (q.Who.TID == 0 || q.Who.TID == after.Who.TID) && after.Continues(&q.Wait, ran):
			q.Who, q.Stack, q.Flags = after.Who, after.Stack, q.Flags&^events.WaitByIRQ
		case q.Who.TID != 0:
			after = q
		default:
			after = nil
		}
		if since = q.Start; q.State == events.WaitBlocked {
			ran = 0
		}
	}
}
