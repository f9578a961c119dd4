package session

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"ingero/internal/gpu"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/xid"
	"ingero/pkg/events"
)

// Faulty is a source that learns of faults of GPUs as they happen. What a [Recording]
// has of them is in its totals, joined already.
type Faulty interface {
	// Faults appends those that have come since the last call.
	Faults(dst []tick.Xid) []tick.Xid
}

const (
	// lastCalls is how many calls are told with a fault.
	lastCalls = 4
	// keptCalls is how many are kept of a process while a fault waits for its tick.
	keptCalls = 32
	// maxCallers bounds the processes of which the last calls are kept. Of those that
	// come when they are so many, none are.
	maxCallers = 1024
	// maxTold bounds the faults of a session that are told: a driver can report some all
	// day long. Those that come later are counted.
	maxTold = 100_000
	// settles is how long a fault waits for the calls before it to be read.
	settles = 500 * time.Millisecond
)

// watchGPUs begins to wait for faults and to poll the GPUs.
func (l *Live) watchGPUs(ctx context.Context) {
	var err error
	if l.faults, err = OpenFaults(ctx, FaultOptions{Log: l.Log, Clock: l.clock, Hurry: l.hurry}); err != nil {
		l.Log.Debug("faults of GPUs are not seen", "error", err)
		if (gpu.Machine{}).Loaded() {
			l.reports = append(l.reports, tick.Report{Kind: "faults-unseen", Object: "GPU faults", Why: err.Error()})
		}
	}
	l.states = gpu.Machine{}.Poll(gpu.PollOptions{})
}

// leaveGPUs ends both. What has come can still be drained.
func (l *Live) leaveGPUs() error {
	if l.states != nil {
		l.states.Close()
	}
	if l.faults == nil {
		return nil
	}
	return l.faults.Close()
}

// tellGPUs fills a tick. mu is held.
func (l *Live) tellGPUs(t *tick.Tick) {
	if l.faults != nil {
		t.Drops = append(t.Drops, l.faults.Drops()...)
	}
	t.GPUs = l.states.States()
	if err := l.states.Why(); err != nil {
		t.Reports = append(t.Reports, tick.Report{Kind: "gpu-state-unknown", Object: "GPU state", Why: err.Error()})
	}
}

// Faults implements [Faulty].
func (l *Live) Faults(dst []tick.Xid) []tick.Xid {
	if l.faults == nil {
		return dst
	}
	return l.faults.Drain(dst)
}

// joiner joins faults to the processes that they hit and to their last calls.
type joiner struct {
	fs     proc.FS
	recent map[uint32]*recent
	last   *recent // of the call before: most calls are like it
	of     uint32
	groups []*group
	bursts xid.Bursts
	next   []tick.Xid
	told   int
	over   uint64
}

// recent are the last outermost calls of a process.
type recent struct {
	calls [lastCalls]events.Call
	n     int
}

// group are the faults that came at one poll, and the calls around them.
type group struct {
	xids  []tick.Xid
	until int64 // the last of them
	calls map[uint32][]events.Call
}

func newJoiner() *joiner { return &joiner{recent: map[uint32]*recent{}} }

// batch takes in what a poll has brought.
func (j *joiner) batch(s Source, b *tick.Batch) {
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.Flags&events.CallNested != 0 {
			continue
		}
		j.keep(c)
		for _, g := range j.groups {
			g.add(c)
		}
	}
	for i := range b.Procs {
		if p := &b.Procs[i]; p.Kind == tick.ProcExited && len(j.groups) == 0 && len(j.recent) > maxCallers/2 {
			delete(j.recent, p.PID)
			j.last = nil
		}
	}
	if f, ok := s.(Faulty); ok {
		if j.next = f.Faults(j.next[:0]); len(j.next) > 0 {
			j.begin()
		}
	}
}

func (j *joiner) keep(c *events.Call) {
	r := j.last
	if r == nil || j.of != c.PID {
		if r = j.recent[c.PID]; r == nil {
			if len(j.recent) >= maxCallers {
				return
			}
			r = &recent{}
			j.recent[c.PID] = r
		}
		j.last, j.of = r, c.PID
	}
	r.calls[r.n%lastCalls] = *c
	r.n++
}

// begin keeps the faults that have come, with the calls as they are now.
func (j *joiner) begin() {
	g := &group{xids: slices.Clone(j.next), calls: map[uint32][]events.Call{}}
	for i := range g.xids {
		g.until = max(g.until, g.xids[i].Time)
	}
	for _, r := range j.recent {
		for i := range min(r.n, lastCalls) {
			g.add(&r.calls[i])
		}
	}
	j.groups = append(j.groups, g)
}

// add keeps a call that began before the faults.
func (g *group) add(c *events.Call) {
	if c.Start > g.until {
		return
	}
	of := append(g.calls[c.PID], *c)
	if len(of) > keptCalls {
		of = slices.Delete(of, 0, 1)
	}
	g.calls[c.PID] = of
}

// tick completes the faults whose calls have been read, and puts them into a tick.
func (j *joiner) tick(t *tick.Tick) {
	var ripe []*group
	j.groups = slices.DeleteFunc(j.groups, func(g *group) bool {
		if !t.Final && t.Time.UnixNano()-g.until < int64(settles) {
			return false
		}
		ripe = append(ripe, g)
		return true
	})
	if j.over > 0 {
		t.Drops = append(t.Drops, tick.Drop{Reason: "faults-over", Count: j.over})
	}
	if len(ripe) == 0 {
		return
	}
	known := slices.Concat(t.Processes, t.Others)
	seen := map[uint32]*looked{}
	for _, g := range ripe {
		for i := range g.xids {
			x := &g.xids[i]
			xid.Victim(x, known, func(pid uint32) (tick.Process, []string, bool) {
				if seen[pid] == nil {
					seen[pid] = look(j.fs, pid)
				}
				l := seen[pid]
				return l.Process, l.names, l.ok
			})
			if x.PID != 0 {
				x.Last = lastOf(x, g.calls[x.PID], t.Threads)
			}
		}
		t.Xids = append(t.Xids, g.xids...)
	}
	j.bursts.Group(t.Xids)
	if room := maxTold - j.told; len(t.Xids) > room {
		j.over += uint64(len(t.Xids) - room)
		t.Xids = t.Xids[:room]
	}
	j.told += len(t.Xids)
}

// looked is what is known of a process that a fault names.
type looked struct {
	tick.Process
	names []string // of its threads
	ok    bool
}

// look reads of a process that is not traced what it is now.
func look(fs proc.FS, pid uint32) *looked {
	p, err := fs.Process(pid)
	if err != nil {
		return &looked{}
	}
	return &looked{describe(&p), fs.ThreadNames(pid), true}
}

// lastOf are the calls of a process that began before a fault, the latest first, with
// those that are open before the others.
func lastOf(x *tick.Xid, calls []events.Call, threads []tick.Thread) []tick.XidCall {
	type start struct {
		tid uint32
		at  int64
	}
	out := map[start]tick.XidCall{}
	for i := range calls {
		if c := &calls[i]; c.Start <= x.Time {
			k := tick.XidCall{TID: c.TID, Op: c.Op, Before: time.Duration(x.Time - c.Start)}
			if c.Flags&events.CallUnmeasured == 0 {
				k.Duration, k.Result = time.Duration(c.Duration), c.Result
			}
			out[start{c.TID, c.Start}] = k
		}
	}
	for i := range threads {
		th := &threads[i]
		if th.PID != x.PID || len(th.Open) == 0 || th.Open[0].Start > x.Time {
			continue
		}
		o := &th.Open[0]
		out[start{th.TID, o.Start}] = tick.XidCall{TID: th.TID, Op: o.Op, Before: time.Duration(x.Time - o.Start), Open: true}
	}
	last := slices.SortedFunc(maps.Values(out), func(a, b tick.XidCall) int {
		if a.Open != b.Open {
			if a.Open {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Before, b.Before), cmp.Compare(a.TID, b.TID))
	})
	return last[:min(len(last), lastCalls)]
}
