package ledger

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Reasons is the number of events.Reason values.
const Reasons = int(events.ReasonHypervisor) + 1

// Step is one step of a thread: all events after one return of a synchronizing call, up to the
// next. Times are nanoseconds, From and To Unix.
type Step struct {
	PID, TID uint32
	From, To int64
	Op       events.Op // the closing call; 0: none, see Period
	// Period marks a step that is a second long by definition, of a thread that never waits for the
	// GPU. Its length has no meaning.
	Period bool
	// Kind is equal for steps that should be similar: closed by the same operation in the same
	// direction, with about as many launches (a power of two). A program that synchronizes at two
	// places has steps of two kinds.
	Kind  uint32
	Calls uint32 // outermost calls, by weight
	// Launches is the number of Calls that launched graphs or kernels (GPU).
	Launches uint32
	Marks    Marks
	Graph    uint64 // handle of the first graph that was launched; 0: none, or unknown
	// GraphsKnown: Marks has MarkGraph if a graph was launched, with a record or without. It does not
	// hold while launches have no probes.
	GraphsKnown bool
	Parts       Parts
	// Lead is the time on a CPU until the first launch, ns: of Parts.CallCPU and Parts.GapCPU.
	Lead int64
	// CodeStack is the ID of the stack in which the thread spent most of its longest time on a CPU
	// between two calls, 0: unknown, or all were short.
	CodeStack uint32
	// Stack is the ID of the closing call's stack, 0: none was taken.
	Stack uint32
	Loss  Loss
	// Behind is the part of the waits outside the closing call, ns, in which the GPU probably had
	// launches left to do: it cost nothing.
	Behind int64
	// Ops are the calls by operation and size, without the closing one; Waits are the waits that
	// may have lengthened the step. Both are bounded and keep the largest. The rest is in the last
	// entry of Ops under Op 0; the rest of Waits is only in Parts.
	Ops   []OpTime
	Waits []Wait
}

// Length returns To - From.
func (s *Step) Length() int64 { return s.To - s.From }

// Parts divides a step's time. All parts, Unknown included, add up to its length.
type Parts struct {
	// GPUWait, SyncRunnable and SyncThrottled are of the closing call; GPUWait is its time on a CPU
	// or blocked.
	GPUWait, SyncRunnable, SyncThrottled int64
	CallCPU                              int64 // on a CPU in other calls
	GapCPU                               int64 // on a CPU between calls
	Runnable, Throttled                  int64 // outside the closing call
	// Blocked is by reason and outside the closing call, except events.ReasonStopped, which covers
	// the whole step.
	Blocked [Reasons]int64
	Unknown int64 // calls with missing records
}

// Sum returns the sum of all parts.
func (p *Parts) Sum() int64 {
	n := p.GPUWait + p.SyncRunnable + p.SyncThrottled + p.CallCPU + p.GapCPU + p.Runnable + p.Throttled + p.Unknown
	for _, b := range p.Blocked {
		n += b
	}
	return n
}

// fit cuts the parts down to a length, in case records disagree. The remaining time goes to
// Unknown.
func (p *Parts) fit(length int64) {
	left := max(length, 0)
	cut := func(v *int64) {
		*v = min(max(*v, 0), left)
		left -= *v
	}
	for _, v := range []*int64{&p.Runnable, &p.Throttled, &p.SyncRunnable, &p.SyncThrottled} {
		cut(v)
	}
	for i := range p.Blocked {
		cut(&p.Blocked[i])
	}
	for _, v := range []*int64{&p.GPUWait, &p.CallCPU, &p.GapCPU} {
		cut(v)
	}
	p.Unknown = left
}

// Loss is the time that the closing call lost after the GPU finished: runnable, throttled or
// stopped. A call that blocks is woken when the GPU is done, so its later waits are the exact loss.
// A call that spins was late only if it returned right after its last wait W. It is unknown when in
// W the GPU finished, so the loss is in [0, W] and Est is W/2. Any other wait in it was free.
type Loss struct {
	Est, Min, Max int64 // ns
}

// OpTime sums up a step's calls of one operation and size.
type OpTime struct {
	Op    events.Op // 0: all other operations
	Size  uint8     // of allocations, copies and fills: bits in the number of bytes
	Count uint32    // calls, by weight
	Seen  uint32    // calls with a measured duration
	NS    int64     // total time of the Seen calls
	// Own is NS without the time taken by the host: runnable, throttled and named waits (disk,
	// lock, driver, stopped).
	Own int64
	// Slowest is the number of longest Seen calls that make up at least nine tenths of Own;
	// SlowestNS is their part of Own.
	Slowest   uint32
	SlowestNS int64
}

// Wait sums up the waits of one kind in a step for one culprit or one reason.
type Wait struct {
	NS          int64 // events.WaitRunnable with Who: the time that Who had the CPU
	Count       uint32
	First, Last int64         // Unix ns: start of the first, end of the last
	Who         events.Thread // as in events.Wait
	Op          events.Op     // outermost call around it, 0: between calls
	CPU         uint16        // of the longest wait
	Call        events.Syscall
	Dev         uint32
	State       events.WaitState
	Reason      events.Reason
	Flags       events.WaitFlags
	// Critical marks waits of the closing call that Loss consists of; NS is at most Loss.Max. Waits
	// of the closing call that cost nothing are left out.
	Critical bool
	// Waker is what Who did meanwhile, if it had an account.
	Waker tick.WakerShare
	// ForGIL is the part of Waker's time, ns, in which a thread between Who and Waker.Root waited
	// for Python's lock, held by the next one.
	ForGIL int64
	// Asked is the part of NS in which Who answered a request: the thread that waited had woken it just before.
	Asked int64
	// Stack is where the thread blocked for most of the time, 0: unknown; see events.Wait.OwnStack.
	Stack uint32

	longest int64
	stack   vote
	votes   wakerVotes
	own     bool // Who is in the process that waited
}

// same reports whether o has the same culprit and kind.
func (w *Wait) same(o *Wait) bool {
	return w.Who.TID == o.Who.TID && (w.Who.TID != 0 || w.Who.Parent == o.Who.Parent) && w.State == o.State && w.Reason == o.Reason && w.Op == o.Op &&
		w.Critical == o.Critical && w.Dev == o.Dev && w.Call == o.Call && (w.Flags^o.Flags)&kindFlags == 0
}

// like reports whether o has the same kind, and another thread of the same process.
func (w *Wait) like(o *Wait) bool {
	x := *o
	x.Who.TID = w.Who.TID
	return w.Who.PID == o.Who.PID && w.Flags&events.WaitOthers == 0 && w.same(&x)
}

// keepWait adds x to a list of at most most waits, and returns the list. It merges x with the same wait,
// or, in a full list, with a wait of another thread of its process. Otherwise the smallest wait
// loses its name: it joins a sibling under their common parent, or an unnamed wait. The sum of
// runnable or throttled time is kept if the list has an entry of that kind.
func keepWait(list []Wait, most int, x *Wait) []Wait {
	least := 0
	for i := range list {
		if list[i].same(x) {
			list[i].merge(x)
			return list
		}
		if list[i].NS < list[least].NS {
			least = i
		}
	}
	if len(list) < most {
		return append(list, *x)
	}
	for i := range list {
		if list[i].like(x) {
			list[i].merge(x)
			return list
		}
	}
	small := *x
	if list[least].NS < small.NS {
		small, list[least] = list[least], small
	}
	if small.State == events.WaitBlocked {
		return list
	}
	if at := smallest(list, func(x *Wait) bool { return x.sibling(&small) }); at >= 0 {
		list[at].orphan()
		small.orphan()
		list[at].merge(&small)
		return list
	}
	small.unname()
	if at := smallest(list, func(x *Wait) bool { return x.same(&small) }); at >= 0 {
		list[at].merge(&small)
		return list
	}
	at := smallest(list, func(x *Wait) bool {
		return x.State == small.State && x.Op == small.Op && x.Critical == small.Critical
	})
	if at >= 0 {
		list[at].unname()
		list[at].merge(&small)
	}
	return list
}

// smallest returns the index of the smallest selected wait, or -1.
func smallest(list []Wait, match func(*Wait) bool) int {
	at := -1
	for i := range list {
		if match(&list[i]) && (at < 0 || list[i].NS < list[at].NS) {
			at = i
		}
	}
	return at
}

// sibling reports whether o has the same kind and both processes have the same parent. Init and the
// kernel do not count: they start too many processes.
func (w *Wait) sibling(o *Wait) bool {
	x, y := *w, *o
	x.orphan()
	y.orphan()
	return w.State == events.WaitRunnable && !w.own && !o.own && w.Who.Parent > kthreadd && x.same(&y)
}

// orphan removes the thread from a wait and keeps the parent: Who has a Parent and no TID.
func (w *Wait) orphan() {
	parent := w.Who.Parent
	w.unname()
	w.Who.Parent = parent
}

// unname removes the thread and the parent from a wait.
func (w *Wait) unname() {
	w.Who, w.Waker, w.ForGIL, w.Asked = events.Thread{}, tick.WakerShare{}, 0, 0
	w.Flags |= events.WaitOthers
	w.votes = wakerVotes{}
}

// kindFlags are the flags that distinguish waits.
const kindFlags = events.WaitIO | events.WaitByIRQ | events.WaitIdle | events.WaitOthers

// merge adds o, which is of the same kind.
func (w *Wait) merge(o *Wait) {
	w.NS += o.NS
	w.Count += o.Count
	w.First = min(w.First, o.First)
	w.Last = max(w.Last, o.Last)
	if o.longest > w.longest {
		w.longest, w.CPU = o.longest, o.CPU
	}
	w.ForGIL += o.ForGIL
	w.Asked += o.Asked
	addWaker(&w.Waker, &o.Waker, &w.votes)
	if o.Stack != 0 && w.stack.cast(w.Stack == o.Stack, o.NS) {
		w.Stack = o.Stack
	}
}

// vote finds a majority candidate, weighted by time, in constant memory: time for the candidate
// counts up, time for any other counts down.
type vote int64

// cast reports whether the new candidate must replace the current one.
func (v *vote) cast(same bool, ns int64) (replace bool) {
	if same {
		*v += vote(ns)
		return false
	}
	if *v -= vote(ns); *v >= 0 {
		return false
	}
	*v = -*v
	return true
}

// wakerVotes has the votes for the fields of a summed waker share.
type wakerVotes struct{ blocked, runnable, root vote }

// votesOf returns the votes of one share.
func votesOf(w *tick.WakerShare) wakerVotes {
	return wakerVotes{vote(w.Blocked), vote(w.Runnable), vote(w.Total())}
}

// addWaker adds one waker's share to a sum.
func addWaker(sum, o *tick.WakerShare, v *wakerVotes) {
	if o.Total() == 0 {
		return
	}
	if o.Blocked > 0 {
		same := sum.Reason == o.Reason && sum.Call == o.Call && sum.Dev == o.Dev
		if v.blocked.cast(same, int64(o.Blocked)) {
			sum.Reason, sum.Call, sum.Dev = o.Reason, o.Call, o.Dev
		}
	}
	if same := sum.By.PID == o.By.PID && sum.Hypervisor == o.Hypervisor; o.Runnable > 0 && (v.runnable.cast(same, int64(o.Runnable)) || same && o.By.TID != 0) {
		sum.By, sum.Hypervisor = o.By, o.Hypervisor
	}
	if v.root.cast(sum.Root.TID == o.Root.TID, int64(o.Total())) || sum.Root.TID == o.Root.TID {
		sum.Root, sum.Through = o.Root, o.Through
	}
	sum.Times.Add(&o.Times)
}
