package tick

import (
	"cmp"
	"slices"
	"time"
)

// Place is where a thread's time was spent.
type Place uint8

// The places. Each moment of a traced thread belongs to one of them.
const (
	InGPUWaits   Place = iota // in calls that wait for the GPU (events.ClassSync)
	InCalls                   // in other traced calls
	BetweenCalls              // in the program itself
	Places
)

var placeNames = [Places]string{"gpu_waits", "calls", "between_calls"}

// String returns the name of the place.
func (p Place) String() string {
	if p < Places {
		return placeNames[p]
	}
	return "?"
}

// ThreadTime divides the time of one thread: the sum over all places is its observed time, ns.
type ThreadTime struct {
	TID  uint32 // 0: all threads without an entry of their own
	Comm string
	In   [Places]Spent
}

// Spent is the time in one place and the threads or things that took it, the largest first. Unnamed
// time is left out. Blocked time in calls that wait for the GPU has no names.
type Spent struct {
	Times
	RunnableBy, BlockedOn []Share
}

// Elapsed returns the observed time of the thread.
func (t *ThreadTime) Elapsed() (ns uint64) {
	for i := range t.In {
		ns += t.In[i].Total()
	}
	return ns
}

// shareKey identifies shares.
type shareKey struct {
	pid, tid, dev uint32
	idle, irq     bool
	what          [3]uint16
}

func (s *Share) key() shareKey {
	k := shareKey{pid: s.Who.PID, dev: s.Dev, idle: s.Idle, irq: s.ByIRQ, what: [3]uint16{uint16(s.Reason), uint16(s.Call), uint16(s.File)}}
	if s.Own || s.Reason != 0 { // CPU users are listed by process
		k.tid = s.Who.TID
	}
	return k
}

// addShares adds the shares of b to those of a, and keeps the most largest.
func addShares(a, b []Share, most int) []Share {
	out := append([]Share(nil), a...)
	at := make(map[shareKey]int, len(out))
	for i := range out {
		at[out[i].key()] = i
	}
	for i := range b {
		j, known := at[b[i].key()]
		if !known {
			at[b[i].key()] = len(out)
			out = append(out, b[i])
			continue
		}
		x := &out[j]
		x.NS, x.Count = x.NS+b[i].NS, x.Count+b[i].Count
		x.Waker = addWakers(x.Waker, b[i].Waker)
	}
	sortShares(out)
	return out[:min(len(out), most)]
}

// lessShares returns the growth of each share since was.
func lessShares(now, was []Share) []Share {
	before := make(map[shareKey]*Share, len(was))
	for i := range was {
		before[was[i].key()] = &was[i]
	}
	out := make([]Share, 0, len(now))
	for i := range now {
		x := now[i]
		if b := before[x.key()]; b != nil && b.NS <= x.NS && b.Count <= x.Count { // else the share began anew
			x.NS, x.Count = x.NS-b.NS, x.Count-b.Count
			x.Waker = lessWaker(x.Waker, b.Waker)
		}
		if x.NS > 0 {
			out = append(out, x)
		}
	}
	sortShares(out)
	return out
}

// addWakers and lessWaker add and subtract waker shares.
func addWakers(a, b *WakerShare) *WakerShare {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *a
	if b.Total() > a.Total() { // names from the larger one
		sum = *b
		sum.Times = a.Times
	}
	sum.Times.Add(&b.Times)
	return &sum
}

func lessWaker(now, was *WakerShare) *WakerShare {
	if now == nil || was == nil {
		return now
	}
	left := *now
	left.Times = now.Times.Since(&was.Times)
	return &left
}

func sortShares(s []Share) {
	slices.SortStableFunc(s, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Who.TID, b.Who.TID))
	})
}

// Since returns the growth since was. A part that shrank, which should not happen, counts as zero.
func (t *Times) Since(was *Times) Times {
	return Times{
		OnCPU: t.OnCPU - min(was.OnCPU, t.OnCPU), Runnable: t.Runnable - min(was.Runnable, t.Runnable),
		Throttled: t.Throttled - min(was.Throttled, t.Throttled), Blocked: t.Blocked - min(was.Blocked, t.Blocked),
	}
}

// mostShares bounds the names of a part, mostThreads the listed threads of an account.
const (
	mostShares  = 16
	mostThreads = 32
)

// Plus returns the sum of two accounts of one process for successive times.
func (b *Breakdown) Plus(o *Breakdown) Breakdown {
	sum := *b
	sum.Threads = max(b.Threads, o.Threads)
	for i, p := range sum.sums() {
		*p += *o.sums()[i]
	}
	sum.Steps += o.Steps
	sum.Open = o.Open
	sum.Code = AddCode(b.Code, o.Code)
	sum.RunnableBy = addShares(b.RunnableBy, o.RunnableBy, mostShares)
	sum.BlockedOn = addShares(b.BlockedOn, o.BlockedOn, mostShares)
	sum.ByThread, sum.Loop = addThreads(b.ByThread, o.ByThread), b.Loop.Plus(o.Loop)
	if b.Lengths != nil && o.Lengths != nil {
		sum.Lengths = b.Lengths.Clone()
		sum.Lengths.Merge(o.Lengths)
		sum.StepP50, sum.StepP99 = time.Duration(sum.Lengths.Quantile(0.5)), time.Duration(sum.Lengths.Quantile(0.99))
	} else if o.Steps > b.Steps { // quantiles cannot be added: use those of the longer part
		sum.StepP50, sum.StepP99, sum.Lengths = o.StepP50, o.StepP99, o.Lengths
	}
	return sum
}

// Since returns the account of the time since an earlier state. Its loop is what the program repeated in
// that time, without slow steps.
func (b *Breakdown) Since(was *Breakdown) Breakdown {
	left := *b
	for i, p := range left.sums() {
		*p -= min(*was.sums()[i], *p)
	}
	left.Steps -= min(was.Steps, left.Steps)
	left.Code = lessCode(b.Code, was.Code, left.GapCPU)
	left.RunnableBy, left.BlockedOn = lessShares(b.RunnableBy, was.RunnableBy), lessShares(b.BlockedOn, was.BlockedOn)
	left.ByThread, left.Loop = lessThreads(b.ByThread, was.ByThread), b.Loop.since(was.Loop, left.Elapsed)
	if b.Lengths != nil {
		left.Lengths = b.Lengths.Clone()
		left.Lengths.Sub(was.Lengths)
		left.StepP50, left.StepP99 = time.Duration(left.Lengths.Quantile(0.5)), time.Duration(left.Lengths.Quantile(0.99))
	}
	return left
}

// mostCode bounds the listed places of the code.
const mostCode = 8

// AddCode adds the times of b to those of a by place, and keeps the largest.
func AddCode(a, b []CodeTime) []CodeTime {
	out := slices.Clone(a)
	for _, x := range b {
		if i := slices.IndexFunc(out, func(o CodeTime) bool { return o.At == x.At }); i >= 0 {
			out[i].NS += x.NS
		} else {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b CodeTime) int { return cmp.Compare(b.NS, a.NS) })
	return out[:min(len(out), mostCode)]
}

// lessCode returns the growth of each place's time since was, at most the given one: a place that was
// not listed before has an unknown earlier time.
func lessCode(now, was []CodeTime, most uint64) []CodeTime {
	var out []CodeTime
	for _, x := range now {
		if i := slices.IndexFunc(was, func(o CodeTime) bool { return o.At == x.At }); i >= 0 {
			x.NS -= min(was[i].NS, x.NS)
		}
		if x.NS = min(x.NS, most); x.NS > 0 {
			out = append(out, x)
		}
	}
	return AddCode(nil, out)
}

// CodeAt returns the place in the code with at least half of GapCPU, "" for none.
func (b *Breakdown) CodeAt() string {
	if len(b.Code) > 0 && 2*b.Code[0].NS >= b.GapCPU {
		return b.Code[0].At
	}
	return ""
}

// sums returns the sums of an account that can be added.
func (b *Breakdown) sums() [10]*uint64 {
	return [...]*uint64{&b.Elapsed, &b.GPUWait, &b.CallCPU, &b.GapCPU, &b.Runnable, &b.Throttled, &b.Blocked, &b.Critical, &b.CriticalMin, &b.CriticalMax}
}

// addThreads adds threads by TID, and merges those over the limit into one.
func addThreads(a, b []ThreadTime) []ThreadTime {
	out := append([]ThreadTime(nil), a...)
	for i := range b {
		j := slices.IndexFunc(out, func(t ThreadTime) bool { return t.TID == b[i].TID })
		if j < 0 {
			out = append(out, b[i])
			continue
		}
		out[j] = out[j].Plus(&b[i])
	}
	return LimitThreads(out)
}

// lessThreads returns the growth of each thread. The last entry has the rest of the growth,
// including that of threads no longer listed.
func lessThreads(now, was []ThreadTime) []ThreadTime {
	left := inAll(now)
	for p, before := range inAll(was) {
		left[p] = left[p].Since(&before)
	}
	out := make([]ThreadTime, 0, len(now)+1)
	for i := range now {
		t := now[i]
		if t.TID == 0 {
			continue
		}
		if j := slices.IndexFunc(was, func(w ThreadTime) bool { return w.TID == t.TID }); j >= 0 {
			for p := range t.In {
				x, y := &t.In[p], &was[j].In[p]
				*x = Spent{x.Times.Since(&y.Times), lessShares(x.RunnableBy, y.RunnableBy), lessShares(x.BlockedOn, y.BlockedOn)}
			}
		}
		for p := range left {
			left[p] = left[p].Since(&t.In[p].Times)
		}
		if t.Elapsed() > 0 {
			out = append(out, t)
		}
	}
	rest := ThreadTime{}
	for p := range left {
		rest.In[p].Times = left[p]
	}
	if rest.Elapsed() > 0 {
		out = append(out, rest)
	}
	return out
}

// inAll returns the sum of all threads.
func inAll(all []ThreadTime) (sum [Places]Times) {
	for i := range all {
		for p := range sum {
			sum[p].Add(&all[i].In[p].Times)
		}
	}
	return sum
}

// Plus returns the sum of two accounts of a thread.
func (t *ThreadTime) Plus(o *ThreadTime) ThreadTime {
	sum := *t
	if sum.Comm == "" {
		sum.Comm = o.Comm
	}
	for p := range sum.In {
		x, y := &sum.In[p], &o.In[p]
		x.Times.Add(&y.Times)
		x.RunnableBy, x.BlockedOn = addShares(x.RunnableBy, y.RunnableBy, mostShares), addShares(x.BlockedOn, y.BlockedOn, mostShares)
	}
	return sum
}

// Busy returns the time that a thread spent in calls.
func (t *ThreadTime) Busy() uint64 { return t.In[InGPUWaits].Total() + t.In[InCalls].Total() }

// LimitThreads sorts threads, longest time in calls first, and merges those over the limit into one
// without a TID.
func LimitThreads(all []ThreadTime) []ThreadTime {
	slices.SortStableFunc(all, func(a, b ThreadTime) int {
		rest := func(t *ThreadTime) int { return min(1, int(t.TID)) } // the one without a TID last
		return cmp.Or(cmp.Compare(rest(&b), rest(&a)), cmp.Compare(b.Busy(), a.Busy()), cmp.Compare(a.TID, b.TID))
	})
	if len(all) <= mostThreads {
		return all
	}
	rest := ThreadTime{}
	for i := range all[mostThreads-1:] {
		rest = rest.Plus(&all[mostThreads-1+i])
	}
	rest.Comm = ""
	return append(all[:mostThreads-1:mostThreads-1], rest)
}
