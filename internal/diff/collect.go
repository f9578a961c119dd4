package diff

import (
	"context"
	"errors"
	"strings"
	"time"

	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of the data read from a run's log: all accounts of its threads, and as many seconds of
// calls and waits as can be read quickly, spread over the run.
const (
	sliceLength = time.Second
	mostCalls   = 1_000_000
	leastSlices = 48
	mostSlices  = 4096
	mostThreads = 256 // of a role, with separate records
	mainShare   = 0.1 // of the calls of the busiest thread: a thread with fewer steps is no main thread
)

// threadID is a thread of a run.
type threadID struct{ pid, tid uint32 }

// collected is the log's data of a role.
type collected struct {
	*role
	anchor  events.Op
	threads map[threadID]*threadRun
}

// threadRun is one thread: its account by block, and its records by slice.
type threadRun struct {
	last    tick.Thread
	blocks  *Series
	slices  *Series
	anchors float64
	lines   map[lineKey][]float64 // values by slice
}

// lineKey is an operation with the stack of its caller.
type lineKey struct {
	op    events.Op
	stack uint32
}

// collector reads a log.
type collector struct {
	*Run
	stacks    *query.Stacks
	processes map[uint32]*collected
	start     int64 // start of the first block, Unix ns
	n         int   // blocks
	every     int64 // distance between slices
	m         int   // slices
	lines     map[uint32]string
}

// collect reads the log of a run for the compared roles.
func (run *Run) collect(ctx context.Context, roles []*collected) (*collector, error) {
	c := &collector{Run: run, processes: map[uint32]*collected{}, lines: map[uint32]string{}}
	for _, x := range roles {
		x.threads = map[threadID]*threadRun{}
		for _, pid := range x.pids {
			c.processes[pid] = x
		}
	}
	block := int64(run.every)
	c.start = run.From.UnixNano() / block * block
	c.n = int((run.To.UnixNano()-c.start)/block) + 1
	length := run.To.Sub(run.From)
	count := min(int(length/sliceLength)+1, mostSlices)
	if run.calls > mostCalls {
		count = min(count, max(int(uint64(count)*mostCalls/run.calls), leastSlices))
	}
	c.every = max(int64(length)/int64(count)/int64(sliceLength), 1) * int64(sliceLength)
	c.m = int((run.To.UnixNano()-c.start)/c.every) + 1
	var err error
	if c.stacks, err = run.r.Stacks(ctx, &run.Session); err != nil {
		return nil, err
	}
	cover, err := run.r.Slices(ctx, query.Filter{Session: run.Session.ID, From: time.Unix(0, c.start), To: run.To}, time.Duration(c.every), sliceLength, c.take)
	if errors.Is(err, query.ErrNoCalls) { // there are rollups
		err = nil
	}
	run.Cover.Damage = append(run.Cover.Damage, cover.Damage...)
	run.Cover.Missing = append(run.Cover.Missing, cover.Missing...)
	return c, err
}

func (c *collector) take(s *query.Slice) {
	for i := range s.Threads {
		if t := &s.Threads[i]; !t.Enrolled {
			c.account(t)
		}
	}
	for i := range s.Calls {
		c.call(&s.Calls[i])
	}
	for i := range s.Waits {
		c.wait(&s.Waits[i])
	}
}

// thread returns a thread of the roles, or nil.
func (c *collector) thread(pid, tid uint32) *threadRun {
	x := c.processes[pid]
	if x == nil {
		return nil
	}
	k := threadID{pid, tid}
	t := x.threads[k]
	if t == nil && len(x.threads) < mostThreads {
		t = &threadRun{blocks: newSeries(c.n), slices: newSeries(c.m), lines: map[lineKey][]float64{}}
		x.threads[k] = t
	}
	return t
}

// account distributes the growth since the previous account over the blocks.
func (c *collector) account(now *tick.Thread) {
	t := c.thread(now.PID, now.TID)
	if t == nil {
		return
	}
	before := t.last
	t.last = *now
	t.last.Open = nil
	if before.Since != now.Since || before.Until == 0 {
		before = tick.Thread{Until: now.Since}
		if now.Since < c.start { // times before the run are ignored
			return
		}
	}
	length := now.Until - before.Until
	if length <= 0 {
		return
	}
	var sum [parts]float64
	for i, v := range partsOf(now) {
		sum[i] = float64(v) - float64(partsOf(&before)[i])
	}
	block := int64(c.Run.every)
	for i := max((before.Until-c.start)/block, 0); i < int64(c.n); i++ {
		from, to := max(before.Until, c.start+i*block), min(now.Until, c.start+(i+1)*block)
		if from >= to {
			break
		}
		share := float64(to-from) / float64(length)
		for p, v := range sum {
			if v != 0 {
				t.blocks.add(int(i), Key{Kind: KindPart, Part: Part(p)}, v*share)
			}
		}
	}
}

// partsOf returns the parts of an account.
func partsOf(t *tick.Thread) (p [parts]uint64) {
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	p[GPUWait] = t.Sync.OnCPU + t.Sync.Blocked
	p[GapCPU] = t.Between.OnCPU
	p[CallCPU] = less(t.InCalls.OnCPU, t.Sync.OnCPU)
	p[Runnable] = t.InCalls.Runnable + t.Between.Runnable
	p[Throttled] = t.InCalls.Throttled + t.Between.Throttled
	p[Blocked] = less(t.InCalls.Blocked, t.Sync.Blocked) + t.Between.Blocked
	for _, v := range p[GPUWait:] {
		p[All] += v
	}
	return p
}

// slice returns the slice that contains a time.
func (c *collector) slice(at int64) (int, bool) {
	i := (at - c.start) / c.every
	return int(i), at >= c.start && i < int64(c.m) && (at-c.start)%c.every < int64(sliceLength)
}

func (c *collector) call(e *events.Call) {
	i, ok := c.slice(e.End())
	if !ok || e.Flags&(events.CallNested|events.CallUnmeasured) != 0 {
		return
	}
	t := c.thread(e.PID, e.TID)
	if t == nil {
		return
	}
	if e.Op == c.processes[e.PID].anchor {
		t.slices.Steps[i] += float64(e.Weight)
		t.anchors += float64(e.Weight)
	}
	if n := e.StackWeight(); n > 0 {
		if v := c.values(t, e); v != nil {
			v[i] += float64(n) * float64(e.Duration-e.Runnable-e.Throttled)
		}
	}
}

// values returns the sums of a call's line, or nil if the line has no name.
func (c *collector) values(t *threadRun, e *events.Call) []float64 {
	k := lineKey{e.Op, e.Stack}
	v, known := t.lines[k]
	if !known {
		if line := c.line(e.Stack); line != "" {
			v = t.slices.values(Key{Kind: KindLine, Part: partOf(e.Op), Op: e.Op, Line: line})
		}
		t.lines[k] = v
	}
	return v
}

// partOf returns the part with most of the time of an operation's calls.
func partOf(op events.Op) Part {
	if isSync(op) {
		return GPUWait
	}
	return CallCPU
}

func isSync(op events.Op) bool {
	row := op.Row()
	return row != nil && row.Class == events.ClassSync
}

// line names the place of a call by file and function, so that it is stable across versions of the
// file.
func (c *collector) line(stack uint32) string {
	line, known := c.lines[stack]
	if !known {
		if s := c.stacks.Stack(stack); s != nil {
			if f := s.Site(); f != nil {
				line = f.Func + "() in " + f.File[strings.LastIndexByte(f.File, '/')+1:]
				if f.File == "" {
					line = f.Func + "() in " + f.Module[strings.LastIndexByte(f.Module, '/')+1:]
				}
			}
		}
		c.lines[stack] = line
	}
	return line
}

func (c *collector) wait(w *events.Wait) {
	i, ok := c.slice(w.End())
	if !ok || c.processes[w.PID] == nil {
		return
	}
	k := Key{Kind: KindWait}
	ns := w.Duration
	switch {
	case w.State == events.WaitRunnable:
		k.Part, k.Reason = Runnable, w.Reason
		if ns = w.Taken; w.Flags&events.WaitIdle != 0 {
			k.Idle, ns = true, w.Duration
		}
	case w.State == events.WaitBlocked && !isSync(w.Op):
		k.Part = Blocked
		k.Reason = w.Reason
		switch w.Reason {
		case events.ReasonDisk, events.ReasonFile, events.ReasonDevice:
			k.Dev = w.Dev
		case events.ReasonUnknown, events.ReasonOther:
			k.Call = w.Syscall
		}
	default:
		return
	}
	if w.Who.TID != 0 && w.Flags&events.WaitByIRQ == 0 && (k.Part == Runnable || ofAnother(w.Reason)) {
		k.Who, k.Own, k.Agent = family(w.Who.Name.String()), w.Who.PID == w.PID, w.Who.PID == uint32(c.Session.PID)
	}
	if t := c.thread(w.PID, w.TID); t != nil && ns > 0 {
		t.slices.add(i, k, float64(ns))
	}
}

// ofAnother reports whether a thread that blocks for a reason waits for another thread.
func ofAnother(r events.Reason) bool {
	switch r {
	case events.ReasonLock, events.ReasonGIL, events.ReasonPipe, events.ReasonSocket, events.ReasonChild, events.ReasonStopped:
		return true
	}
	return false
}

// family returns the name of a kind of threads without numbers, which is stable across runs.
func family(name string) string {
	if strings.HasPrefix(name, "kworker/") {
		return "kworker"
	}
	if short := strings.TrimRight(name, "0123456789-_:/#."); short != "" {
		return short
	}
	return name
}
