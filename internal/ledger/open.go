package ledger

import "ingero/pkg/events"

const (
	maxOps   = 12 // operations and sizes counted separately in a step
	maxWaits = 12 // culprits kept separately in a step
)

// openStep is the state of a step that is not closed yet.
type openStep struct {
	calls, launches uint32
	counted         uint32 // launches, by the kernel's count: 0 in old recordings
	parts           Parts  // Blocked comes from the records, until settle
	lead            int64  // as in Step
	longestCode     int64  // longest time on a CPU between two calls that has a stack
	codeStack       uint32 // of longestCode, as in Step
	blocked         int64  // outside the closing call, by the calls' own figures
	vagueCall       int64  // on a CPU or blocked, in calls
	vagueGap        int64
	between         int64      // blocked between calls, by the records
	taken           int64      // waits with an owner in the next call to be added
	recorded        bool       // wait records exist
	ops             []OpTime   // at most maxOps; most threads have few
	long            []byLength // of ops
	lastOp          int
	waits           []Wait // at most maxWaits
	marks           Marks
	graph           uint64 // as in Step
	tail            tail
	queue           queue
}

func (o *openStep) reset() {
	o.calls, o.launches, o.counted = 0, 0, 0
	o.parts, o.lead = Parts{}, 0
	o.longestCode, o.codeStack = 0, 0
	o.marks, o.graph = 0, 0
	o.blocked, o.vagueCall, o.vagueGap, o.between, o.taken = 0, 0, 0, 0, 0
	o.recorded = false
	o.ops, o.long, o.lastOp, o.waits = o.ops[:0], o.long[:0], 0, o.waits[:0]
	o.tail.reset()
	o.queue.reset()
}

// split returns the parts of a time, adjusted to add up to it.
func split(total, onCPU, runnable, throttled int64, partial bool) (cpu, run, thr, blocked, vague int64) {
	if total <= 0 {
		return 0, 0, 0, 0, 0
	}
	run = min(max(runnable, 0), total)
	thr = min(max(throttled, 0), total-run)
	left := total - run - thr
	if partial {
		return 0, run, thr, 0, left
	}
	cpu = min(max(onCPU, 0), left)
	return cpu, run, thr, left - cpu, 0
}

// gap adds the time between a call and the one before it.
func (o *openStep) gap(c *events.Call) {
	if c.Gap <= 0 {
		return
	}
	cpu, run, thr, blocked, vague := split(c.Gap, c.GapOnCPU, c.GapRunnable, c.GapThrottled, c.Flags&events.CallGapPartial != 0)
	o.parts.GapCPU += cpu
	if c.GapStack != 0 && cpu > o.longestCode {
		o.longestCode, o.codeStack = cpu, c.GapStack
	}
	o.compute(cpu)
	o.parts.Runnable += run
	o.parts.Throttled += thr
	o.blocked += blocked
	o.vagueGap += vague
}

// compute counts time on a CPU that the GPU's queue cannot hide: nothing is launched yet.
func (o *openStep) compute(ns int64) {
	if o.queue.first == 0 {
		o.lead += ns
	}
}

// add adds a call that does not close the step, and the gap before it.
func (o *openStep) add(c *events.Call, size uint8, launch bool) {
	o.gap(c)
	cpu, run, thr, blocked, vague := split(c.Duration, c.OnCPU, c.Runnable, c.Throttled, c.Flags&events.CallLedgerPartial != 0)
	o.parts.CallCPU += cpu
	o.compute(cpu)
	o.parts.Runnable += run
	o.parts.Throttled += thr
	o.blocked += blocked
	o.vagueCall += vague
	op := o.count(c, size, launch)
	own := max(c.Duration-run-thr-o.taken, 0)
	op.Seen++
	op.NS += c.Duration
	op.Own += own
	o.long[o.lastOp].add(own)
	o.taken = 0
	if launch {
		o.queue.launch(max(c.Weight, 1), c.End())
	}
}

// count counts a call, timed or not, and returns the entry of its operation and size.
func (o *openStep) count(c *events.Call, size uint8, launch bool) *OpTime {
	n := max(c.Weight, 1)
	o.calls += n
	o.counted += uint32(c.Launches)
	if launch {
		o.launches += n
	}
	p := o.op(c.Op, size)
	p.Count += n
	return p
}

func (o *openStep) op(op events.Op, size uint8) *OpTime {
	if o.lastOp < len(o.ops) {
		if p := &o.ops[o.lastOp]; p.Op == op && p.Size == size {
			return p
		}
	}
	for i := range o.ops {
		if p := &o.ops[i]; p.Op == op && p.Size == size {
			o.lastOp = i
			return p
		}
	}
	if len(o.ops) == maxOps { // the last entry is for all others
		o.lastOp = maxOps - 1
		p := &o.ops[maxOps-1]
		p.Op, p.Size = 0, 0
		return p
	}
	o.lastOp = len(o.ops)
	o.ops, o.long = append(o.ops, OpTime{Op: op, Size: size}), append(o.long, byLength{})
	return &o.ops[o.lastOp]
}

// wait adds a wait outside the closing call. x is w as an entry of the step.
func (o *openStep) wait(w *events.Wait, x *Wait) {
	o.recorded = true
	o.queue.wait(w)
	if w.State == events.WaitBlocked && w.Flags&events.WaitPrevious == 0 {
		o.parts.Blocked[w.Reason] += w.Duration
		if w.Op == 0 {
			o.between += w.Duration
		}
		if w.Op != 0 && hostTook(w) {
			o.taken += w.Duration
		}
	}
	o.keep(x)
}

// hostTook reports whether a blocked wait in a call has an owner other than the call.
func hostTook(w *events.Wait) bool {
	switch w.Reason {
	case events.ReasonDisk, events.ReasonGPU, events.ReasonDevice, events.ReasonLock, events.ReasonGIL, events.ReasonStopped:
		return true
	case events.ReasonMemory, events.ReasonFault, events.ReasonOther: // until a thread of a program has acted
		if w.Who.TID != 0 && w.Who.Parent != kthreadd {
			return true
		}
	}
	return w.Flags&events.WaitIO != 0
}

// keep adds an entry.
func (o *openStep) keep(x *Wait) { o.waits = keepWait(o.waits, maxWaits, x) }

// close adds the closing call and the gap before it.
func (o *openStep) close(c *events.Call) {
	o.gap(c)
	o.calls += max(c.Weight, 1)
	o.counted += uint32(c.Launches)
	_, run, thr, _, _ := split(c.Duration, c.OnCPU, c.Runnable, c.Throttled, false)
	o.parts.SyncRunnable += run
	o.parts.SyncThrottled += thr
	stopped := min(o.tail.stops.ns, c.Duration-run-thr)
	o.parts.Blocked[events.ReasonStopped] += stopped
	o.blocked += stopped
	o.parts.GPUWait += c.Duration - run - thr - stopped
}

// settle adjusts the blocked parts to the calls' figures, names time without records, and divides
// what is known only as a sum.
func (o *openStep) settle() {
	p := &o.parts
	var named int64
	for _, b := range p.Blocked {
		named += b
	}
	more := min(max(named-o.blocked, 0), o.vagueCall+o.vagueGap)
	gap := max(min(more, o.vagueGap, o.between), more-o.vagueCall)
	p.GapCPU += o.vagueGap - gap
	p.CallCPU += o.vagueCall - (more - gap)

	total := o.blocked + more
	left := total
	for i := range p.Blocked {
		p.Blocked[i] = min(p.Blocked[i], left)
		left -= p.Blocked[i]
	}
	p.Blocked[events.ReasonUnknown] += left

	if o.recorded { // shorter waits have no names; they are many and small
		return
	}
	for _, u := range []struct {
		state events.WaitState
		ns    int64
	}{{events.WaitRunnable, p.Runnable}, {events.WaitThrottled, p.Throttled}} {
		if u.ns >= spinReturn {
			o.keep(&Wait{NS: u.ns, Count: 1, State: u.state, Flags: events.WaitOthers, longest: u.ns})
		}
	}
}
