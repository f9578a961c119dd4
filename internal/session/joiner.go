package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/xid"
	"ingero/pkg/events"
)

const (
	// lastCalls is the number of calls that are reported with a fault.
	lastCalls = 4
	// keptCalls is the number of calls kept per process while a fault waits for its tick: call
	// records arrive in the order of their ends.
	keptCalls = 16
	// maxCallers bounds the processes whose last calls are kept. Further processes have none.
	maxCallers = 1024
	// latest is the number of calls kept for all processes. A fault may arrive after many more
	// calls of its process: this is 16 ms at a million calls a second.
	latest = 1 << 14
	// maxWatched bounds the faults that wait for calls at a time. Further faults are reported
	// without calls.
	maxWatched = 8
	// maxReported bounds the faults reported in a session: a driver can report some all day long.
	// Further ones are counted.
	maxReported = 100_000
	// settles is how long a fault waits for records of earlier calls.
	settles = 500 * time.Millisecond
)

// faultJoiner joins faults to the processes that they hit and to the last calls of those.
type faultJoiner struct {
	fs     proc.FS
	ring   []madeCall // the latest calls of all processes
	at     int        // next position to write in ring
	recent map[uint32]*recent
	last   *recent // of the previous call: most calls have the same process
	of     uint32
	// waiting holds faults that are in no tick yet. watched holds the first fault of each process
	// and device: the calls before it are kept.
	waiting  []waiting
	watched  map[faultedProcess]*callsBefore
	bursts   xid.Bursts
	reported int
	over     uint64
}

// madeCall is the kept part of a call.
type madeCall struct {
	pid, tid        uint32
	op              events.Op
	result          int32
	start, duration int64 // Unix ns, ns; 0: not measured
}

// recent has the last outermost calls of a process.
type recent struct {
	calls [lastCalls]madeCall
	n     int
}

type waiting struct {
	tick.Xid
	before *callsBefore // nil: reported without calls
}

// faultedProcess is a process that a fault hit, as the driver's messages identify it.
type faultedProcess struct {
	bus string
	pid uint32
}

// callsBefore has the calls that began before a fault, by process.
type callsBefore struct {
	until int64
	calls map[uint32][]madeCall
}

func newJoiner(fs proc.FS) *faultJoiner {
	return &faultJoiner{fs: fs, recent: map[uint32]*recent{}, watched: map[faultedProcess]*callsBefore{}}
}

// batch adds the results of a poll. Faults come first: most happened after the calls that earlier
// polls read.
func (j *faultJoiner) batch(faults []tick.Xid, calls []events.Call, lives []tick.ProcEvent) {
	for i := range faults {
		j.begin(&faults[i])
	}
	for i := range calls {
		if calls[i].Flags&events.CallNested == 0 {
			j.keep(&calls[i])
		}
	}
	for i := range lives {
		if p := &lives[i]; p.Kind == tick.ProcExited && len(j.watched) == 0 && len(j.recent) > maxCallers/2 {
			delete(j.recent, p.PID)
			j.last = nil
		}
	}
}

func (j *faultJoiner) keep(from *events.Call) {
	c := madeCall{pid: from.PID, tid: from.TID, op: from.Op, start: from.Start}
	if from.Flags&events.CallUnmeasured == 0 {
		c.duration, c.result = from.Duration, from.Result
	}
	for _, w := range j.watched {
		w.add(&c)
	}
	if len(j.ring) < latest {
		j.ring = append(j.ring, c)
	} else {
		j.ring[j.at] = c
		j.at = (j.at + 1) % latest
	}
	r := j.last
	if r == nil || j.of != c.pid {
		if r = j.recent[c.pid]; r == nil {
			if len(j.recent) >= maxCallers {
				return
			}
			r = &recent{}
			j.recent[c.pid] = r
		}
		j.last, j.of = r, c.pid
	}
	r.calls[r.n%lastCalls] = c
	r.n++
}

// begin queues a fault, with the calls before it.
func (j *faultJoiner) begin(x *tick.Xid) {
	if j.reported+len(j.waiting) >= maxReported {
		j.over++
		return
	}
	h := faultedProcess{x.Bus, x.SaidPID}
	if x.SaidPID == 0 || j.watched[h] != nil || len(j.watched) >= maxWatched {
		j.waiting = append(j.waiting, waiting{*x, nil})
		return
	}
	w := &callsBefore{until: x.Time, calls: map[uint32][]madeCall{}}
	for _, r := range j.recent { // the ring may lack calls of processes that call rarely
		for i := range min(r.n, lastCalls) {
			w.add(&r.calls[(max(r.n, lastCalls)+i)%lastCalls])
		}
	}
	for i := range j.ring {
		w.add(&j.ring[(j.at+i)%len(j.ring)])
	}
	j.watched[h] = w
	j.waiting = append(j.waiting, waiting{*x, w})
}

// add keeps a call if it began before the fault.
func (w *callsBefore) add(c *madeCall) {
	if c.start > w.until {
		return
	}
	of := append(w.calls[c.pid], *c)
	if len(of) > keptCalls {
		of = slices.Delete(of, 0, 1)
	}
	w.calls[c.pid] = of
}

// drops returns how many faults exceeded maxReported, if any.
func (j *faultJoiner) drops() []tick.Drop {
	if j.over == 0 {
		return nil
	}
	return []tick.Drop{{Reason: "faults-over", Count: j.over}}
}

// tick returns the completed faults, once their calls have been read.
func (j *faultJoiner) tick(now time.Time, final bool, processes []tick.Process, threads []tick.Thread) (xids []tick.Xid) {
	if len(j.waiting) == 0 {
		return nil
	}
	seen := map[uint32]*processFacts{}
	look := func(pid uint32) (tick.Process, []string, bool) {
		if seen[pid] == nil {
			seen[pid] = look(j.fs, pid)
		}
		l := seen[pid]
		return l.Process, l.names, l.ok
	}
	j.waiting = slices.DeleteFunc(j.waiting, func(w waiting) bool {
		if !final && now.UnixNano()-w.Time < int64(settles) {
			return false
		}
		x := w.Xid
		if xid.Victim(&x, processes, look); w.before != nil {
			delete(j.watched, faultedProcess{x.Bus, x.SaidPID})
			x.Last = lastOf(&x, w.before.calls[x.PID], threads)
		}
		xids = append(xids, x)
		return true
	})
	j.bursts.Group(xids)
	j.reported += len(xids)
	return xids
}

// processFacts has the facts about a process that a fault names.
type processFacts struct {
	tick.Process
	names []string // names of its threads
	ok    bool
}

// look reads the current facts about an untraced process.
func look(fs proc.FS, pid uint32) *processFacts {
	p, err := fs.Process(pid)
	if err != nil {
		return &processFacts{}
	}
	return &processFacts{describe(&p), fs.ThreadNames(pid), true}
}

// lastOf returns the last calls of a process that began before a fault: open calls first, then the
// latest first.
func lastOf(x *tick.Xid, calls []madeCall, threads []tick.Thread) []tick.XidCall {
	type start struct {
		tid uint32
		at  int64
	}
	if x.PID == 0 {
		return nil
	}
	out := map[start]tick.XidCall{}
	for i := range calls {
		if c := &calls[i]; c.start <= x.Time {
			out[start{c.tid, c.start}] = tick.XidCall{TID: c.tid, Op: c.op, Before: time.Duration(x.Time - c.start), Duration: time.Duration(c.duration), Result: c.result}
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
