package ledger

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Reasons is the number of events.Reason values.
const Reasons = int(events.ReasonHypervisor) + 1

// Step is one step of a thread: all that happened after one return of a
// synchronising call, up to the next. Times are nanoseconds, From and To Unix.
type Step struct {
	PID, TID uint32
	From, To int64
	Op       events.Op // the call that closed it; 0: none did, see Period
	// Period marks a step that is a second long by definition, of a thread that
	// never waits for the GPU. Its length says nothing.
	Period bool
	// Kind is the same for steps that should be alike: closed by the same
	// operation in the same direction, with about as many launches (a power of
	// two). A program that synchronises at two places has steps of two kinds.
	Kind  uint32
	Calls uint32 // outermost calls in it, by weight
	// Launches are those of Calls that were launches, of graphs or kernels.
	Launches uint32
	Marks    Marks
	Parts    Parts
	Loss     Loss
	// Behind is how much of the waits outside the closing call, ns, fell into a
	// time when the GPU probably had launches left to do: they cost nothing.
	Behind int64
	// Ops are the calls by operation and size, the closing one left out; Waits
	// the waits that could have lengthened the step. Both are bounded: the
	// largest are kept, the rest is in the last entry of Ops under Op 0, and of
	// Waits lost but for Parts.
	Ops   []OpTime
	Waits []Wait
}

// Length returns To - From.
func (s *Step) Length() int64 { return s.To - s.From }

// Parts is where a step's time went. All parts, Unknown included, add up to its
// length.
type Parts struct {
	// GPUWait, SyncRunnable and SyncThrottled are of the closing call; GPUWait is
	// what it was on a CPU or blocked.
	GPUWait, SyncRunnable, SyncThrottled int64
	CallCPU                              int64 // on a CPU in other calls
	GapCPU                               int64 // on a CPU between calls
	Runnable, Throttled                  int64 // outside the closing call
	// Blocked is by reason and outside the closing call, but for
	// events.ReasonStopped, which is of the whole step.
	Blocked [Reasons]int64
	Unknown int64 // of calls whose records are missing
}

// Sum returns what all parts add up to.
func (p *Parts) Sum() int64 {
	n := p.GPUWait + p.SyncRunnable + p.SyncThrottled + p.CallCPU + p.GapCPU + p.Runnable + p.Throttled + p.Unknown
	for _, b := range p.Blocked {
		n += b
	}
	return n
}

// fit cuts the parts down to a length, in case records disagree, and puts what
// they leave into Unknown.
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

// Loss is the time that the closing call lost after the GPU was done: ready to
// run, throttled or stopped. A call that blocks is woken when the GPU is done, so
// what it then waited is the loss, exactly. One that spins was late only if it
// returned right after its last wait W; when in W the GPU was done is not known,
// so the loss is in [0, W] and Est is W/2. Any other wait in it was free.
type Loss struct {
	Est, Min, Max int64 // ns
}

// OpTime is what a step's calls of one operation and size took.
type OpTime struct {
	Op    events.Op // 0: all operations that had no room
	Size  uint8     // of allocations, copies and fills: bits in the number of bytes
	Count uint32    // calls, by weight
	Seen  uint32    // calls with a measured duration
	NS    int64     // of those: all their time
	// Own is NS without what the host took: runnable, throttled and named waits
	// (disk, lock, driver, stopped).
	Own int64
	// Few are the longest of the calls seen that make at least nine tenths of Own, and FewNS is
	// what they took of it.
	Few   uint32
	FewNS int64
}

// Wait is what one culprit or one thing took of a step: waits of a kind, added up.
type Wait struct {
	NS          int64 // events.WaitRunnable with Who: the time that Who had the CPU
	Count       uint32
	First, Last int64         // Unix ns: start of the first, end of the last
	Who         events.Thread // as in events.Wait
	Op          events.Op     // outermost call that it was in, 0: between calls
	CPU         uint16        // of the longest
	Call        events.Syscall
	Dev         uint32
	State       events.WaitState
	Reason      events.Reason
	Flags       events.WaitFlags
	// Critical marks waits of the closing call that Loss is made of; NS is at
	// most Loss.Max. Those of the closing call that cost nothing are left out.
	Critical bool
	// Waker is what Who did meanwhile, where it was accounted for.
	Waker tick.WakerShare
	// ForGIL is the part of Waker's time, ns, in which a thread between Who and Waker.Root waited
	// for Python's lock, which the next one had.
	ForGIL int64
	// Stack is that with which the thread blocked for most of the time, 0: not known; see
	// events.Wait.OwnStack.
	Stack uint32

	longest int64
	stack   vote
	votes   wakerVotes
	own     bool // Who is of the process that waited
}

// same says whether o is of the same culprit and kind.
func (w *Wait) same(o *Wait) bool {
	return w.Who.TID == o.Who.TID && (w.Who.TID != 0 || w.Who.Parent == o.Who.Parent) && w.State == o.State && w.Reason == o.Reason && w.Op == o.Op &&
		w.Critical == o.Critical && w.Dev == o.Dev && w.Call == o.Call && (w.Flags^o.Flags)&kindFlags == 0
}

// like says whether o is of the same kind, and of another thread of the same process.
func (w *Wait) like(o *Wait) bool {
	x := *o
	x.Who.TID = w.Who.TID
	return w.Who.PID == o.Who.PID && w.Flags&events.WaitOthers == 0 && w.same(&x)
}

// keepWait adds x to the n waits of a list, to its like where there is one. In a full list
// it goes to another thread of its process, and else the smallest of all gives its name up, to
// go by who started it where others do that it is with in the list: the sum of what was runnable or throttled stays what it was, where the list has one of
// that kind. It returns how many there are now.
func keepWait(list []Wait, n int, x *Wait) int {
	least := 0
	for i := range list[:n] {
		if list[i].same(x) {
			list[i].merge(x)
			return n
		}
		if list[i].NS < list[least].NS {
			least = i
		}
	}
	if n < len(list) {
		list[n] = *x
		return n + 1
	}
	for i := range list {
		if list[i].like(x) {
			list[i].merge(x)
			return n
		}
	}
	small := *x
	if list[least].NS < small.NS {
		small, list[least] = list[least], small
	}
	if small.State == events.WaitBlocked {
		return n
	}
	if at := smallest(list, func(x *Wait) bool { return x.sibling(&small) }); at >= 0 {
		list[at].orphan()
		small.orphan()
		list[at].merge(&small)
		return n
	}
	small.unname()
	if at := smallest(list, func(x *Wait) bool { return x.same(&small) }); at >= 0 {
		list[at].merge(&small)
		return n
	}
	at := smallest(list, func(x *Wait) bool {
		return x.State == small.State && x.Op == small.Op && x.Critical == small.Critical
	})
	if at >= 0 {
		list[at].unname()
		list[at].merge(&small)
	}
	return n
}

// smallest returns which of some waits is, -1 where there are none.
func smallest(list []Wait, of func(*Wait) bool) int {
	at := -1
	for i := range list {
		if of(&list[i]) && (at < 0 || list[i].NS < list[at].NS) {
			at = i
		}
	}
	return at
}

// sibling says whether o is of the same kind, and both are of processes that one process
// started; init and the kernel start too many to say anything.
func (w *Wait) sibling(o *Wait) bool {
	const kthreadd = 2
	x, y := *w, *o
	x.orphan()
	y.orphan()
	return w.State == events.WaitRunnable && !w.own && !o.own && w.Who.Parent > kthreadd && x.same(&y)
}

// orphan makes it a wait for processes of which it is known who started them: Who has a Parent
// and no TID.
func (w *Wait) orphan() {
	parent := w.Who.Parent
	w.unname()
	w.Who.Parent = parent
}

// unname makes it a wait for others of which no more is known.
func (w *Wait) unname() {
	w.Who, w.Waker, w.ForGIL = events.Thread{}, tick.WakerShare{}, 0
	w.Flags |= events.WaitOthers
	w.votes = wakerVotes{}
}

// kindFlags are those that tell waits apart.
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
	addWaker(&w.Waker, &o.Waker, &w.votes)
	if o.Stack != 0 && w.stack.cast(w.Stack == o.Stack, o.NS) {
		w.Stack = o.Stack
	}
}

// vote finds what has more than half of the time, in constant memory: time for
// the candidate counts up, time for any other down.
type vote int64

// cast says whether the candidate must be replaced by the newcomer.
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

// wakerVotes are those for what a sum of wakers' shares is said to be of.
type wakerVotes struct{ blocked, runnable, root vote }

// votesOf are those of one share.
func votesOf(w *tick.WakerShare) wakerVotes {
	return wakerVotes{vote(w.Blocked), vote(w.Runnable), vote(w.Total())}
}

// addWaker adds what a waker did to a sum of such.
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
	if same := sum.By.TID == o.By.TID && sum.Hypervisor == o.Hypervisor; o.Runnable > 0 && (v.runnable.cast(same, int64(o.Runnable)) || same) {
		sum.By, sum.Hypervisor = o.By, o.Hypervisor
	}
	if v.root.cast(sum.Root.TID == o.Root.TID, int64(o.Total())) || sum.Root.TID == o.Root.TID {
		sum.Root, sum.Through = o.Root, o.Through
	}
	sum.Times.Add(&o.Times)
}
