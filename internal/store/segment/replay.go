package segment

import (
	"io"
	"maps"
	"slices"
	"time"

	"ingero/internal/tick"
)

// replayBatch bounds the calls of one poll, and the waits.
const replayBatch = 8192

// ReplayOptions set the replay's speed. The zero value replays as fast as the log can be read, in
// recorded time: a session with the replay as its clock ticks as often as in the recording, and its
// result is reproducible.
type ReplayOptions struct {
	// Speed is the speed relative to the recording; 0 never waits.
	Speed float64
	// Now and After are the clock to follow if Speed is not 0; nil is the machine's.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Sum gets each tick's recorded [ChainSum] before the tick is recomputed, unless it is nil.
	// Known is false if none was recorded.
	Sum func(t *tick.Tick, chains uint64, known bool)
	// Damaged gets each unreadable part of the log, and the recorded times between which records may
	// be missing. The replay continues after it. If Damaged is nil, the replay ends there.
	Damaged func(err error, from, to time.Time)
}

// Replay is a session's source: it delivers a log's content in the original batches, and ticks when
// the original session ticked. So any analysis gives the original result. It is also that session's
// clock, in recorded time. It is not safe for concurrent use.
//
// Logs without batches give the same calls and waits in the same order.
type Replay struct {
	ReplayOptions
	log     *Log
	began   time.Time // on Now's clock
	start   time.Time // recorded time at began
	moving  bool      // something was due already
	at      time.Time // recorded time of the last delivered record
	entry   Entry     // read, not completely delivered
	held    bool
	calls   int // calls delivered of an entry without a batch
	waits   int
	batches rebatcher
	stopped bool
	over    error // io.EOF or the error that ended it
	read    int64 // time of the last record that was read, Unix ns
	unread  error // the unreadable part after it, nil: none

	due    bool      // a tick is due
	tick   tick.Tick // Time, Started, Seq, Window, Records, Final
	ticked time.Time // the previous tick, or the start
	added  uint64    // filled-in ticks
	sum    uint64    // chain checksum of the due tick
	exact  bool      // the log has batches

	ops      map[opKey]*tick.Op
	procs    map[uint32]tick.Process
	others   map[uint32]tick.Process
	libs     map[libKey]int
	ended    []tick.Thread  // in no tick yet
	host     []tick.HostSum // in no tick yet
	gpu      gpuReplay
	requests []tick.Request   // not delivered yet
	reads    []tick.Inference // not delivered yet
	last     tick.Tick        // current Threads, Libraries, Reports, Drops, Host and Self
}

// NewReplay replays log from its current position. A truncated log ends at the truncation.
func NewReplay(log *Log, o ReplayOptions) *Replay {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	return &Replay{ReplayOptions: o, log: log, began: o.Now(), start: log.session.Started, at: log.session.Started, ticked: log.session.Started,
		read: UnixNano(log.session.Started),
		ops:  map[opKey]*tick.Op{}, procs: map[uint32]tick.Process{}, others: map[uint32]tick.Process{}, libs: map[libKey]int{}}
}

// Now returns the replay's position in recorded time.
func (r *Replay) Now() time.Time {
	if r.Speed == 0 {
		return r.at
	}
	return r.start.Add(time.Duration(float64(r.ReplayOptions.Now().Sub(r.began)) * r.Speed))
}

// After delivers once after d of recorded time, and at least a millisecond; with Speed 0 at once.
func (r *Replay) After(d time.Duration) <-chan time.Time {
	if r.Speed != 0 {
		return r.ReplayOptions.After(max(time.Duration(float64(d)/r.Speed), time.Millisecond))
	}
	c := make(chan time.Time, 1)
	c <- r.at
	return c
}

// Poll appends a batch to b, or what is due of a log without batches. more reports that more
// precedes the next tick. At the end of the log it returns [io.EOF].
func (r *Replay) Poll(b *tick.Batch) (more bool, err error) {
	if r.stopped {
		return false, io.EOF
	}
	for !r.due {
		if n, ok := r.batches.next(); ok {
			return r.batch(b, n), nil
		}
		if !r.next() || r.entry.Tick != nil || r.entry.batches != nil && r.batches.lacks() {
			if n, some := r.batches.rest(); some {
				return r.batch(b, n), nil
			}
		}
		switch e := &r.entry; {
		case !r.held:
			return false, r.over
		case e.batches != nil:
			r.batches.begin(e)
			r.exact = true
		case r.batches.take(e):
		case e.Tick != nil:
			if !r.reach(UnixNano(e.Tick.Time)) {
				return false, nil
			}
			r.take(b)
		default:
			if due, full := r.records(b); !due || full {
				return full, nil
			}
			r.take(b)
		}
		r.held = false
	}
	return false, nil
}

// batch appends a batch to b if it is due.
func (r *Replay) batch(b *tick.Batch, n batchSize) (more bool) {
	if !r.reach(r.batches.until(n)) {
		return false
	}
	r.batches.give(b, n)
	return true
}

// reach reports whether a time, in Unix ns, has come. If so, it moves there. The first time is where
// the replay begins if the session began much earlier: the log may lack what was before.
func (r *Replay) reach(at int64) bool {
	if first := FromUnixNano(at); !r.moving && first.Sub(r.start) > tickLate {
		r.start, r.began = first, r.ReplayOptions.Now()
	}
	r.moving = true
	if r.Speed != 0 && at > r.Now().UnixNano() {
		return false
	}
	if t := FromUnixNano(at); t.After(r.at) {
		r.at = t
	}
	return true
}

// records appends the waits, calls and lives of an entry without a batch, in their original order.
// So a wait never follows its call. due reports that all of them were due, full that b had no room
// for a due one.
func (r *Replay) records(b *tick.Batch) (due, full bool) {
	e := &r.entry
	for r.calls < len(e.Calls) || r.waits < len(e.Waits) {
		if r.waits < len(e.Waits) && (e.After[r.waits] <= r.calls || r.calls == len(e.Calls)) {
			w := &e.Waits[r.waits]
			switch {
			case r.fill(w.End()) || !r.reach(w.End()):
				return false, false
			case len(b.Waits) >= replayBatch:
				return true, true
			}
			b.Waits = append(b.Waits, *w)
			r.waits++
			continue
		}
		c := &e.Calls[r.calls]
		switch {
		case r.fill(c.End()) || !r.reach(c.End()):
			return false, false
		case len(b.Calls) >= replayBatch:
			return true, true
		}
		b.Calls = append(b.Calls, *c)
		r.calls++
	}
	b.Procs = append(b.Procs, e.Lives...)
	return true, false
}

// If batches are unknown, ticks are filled in, so that work done once a tick is done as often: an
// import has few ticks.
const (
	tickEvery = time.Second
	tickLate  = 2 * time.Second // a later tick is missing, not late
	tickNone  = time.Minute     // longer gaps had no activity at all
)

// fill makes a tick due if one is missing before a time.
func (r *Replay) fill(at int64) bool {
	late := FromUnixNano(at).Sub(r.ticked)
	if r.exact || late < tickLate {
		return false
	}
	next := r.ticked.Add(tickEvery)
	if late > tickNone {
		next = FromUnixNano(at)
	}
	if !r.reach(UnixNano(next)) {
		return true
	}
	r.added++
	r.due = true
	r.tick = tick.Tick{Time: next, Started: r.log.session.Started, Seq: r.tick.Seq + 1, Window: next.Sub(r.ticked), Records: r.tick.Records}
	return true
}

// Due reports whether a tick is due, after Poll has delivered everything before it, and fills it
// in.
func (r *Replay) Due(t *tick.Tick) bool {
	if !r.due {
		return false
	}
	*t = r.tick
	if r.Sum != nil {
		r.Sum(t, r.sum, r.exact && r.added == 0)
	}
	r.due, r.ticked, r.sum = false, t.Time, 0
	return true
}

// next ensures that there is an entry to deliver.
func (r *Replay) next() bool {
	if r.held {
		return true
	}
	if r.over != nil {
		return false
	}
	err := r.log.Next(&r.entry)
	for ; r.Damaged != nil && Unreadable(err); err = r.log.Next(&r.entry) {
		r.report(r.read)
		r.unread = err
	}
	if err != nil {
		r.report(r.read)
		r.over = err
		return false
	}
	if first, last, some := r.entry.span(); some {
		r.report(first)
		r.read = last
	}
	r.held, r.calls, r.waits = true, 0, 0
	return true
}

// take adds an entry to the totals. Ended threads come with the tick that reports their end, which
// follows all their activity.
func (r *Replay) take(b *tick.Batch) {
	e, t := &r.entry, &r.last
	switch {
	case e.Tick != nil:
		r.stamp(e.Tick)
		t.Drops, t.Host, t.Self = e.Tick.Drops, e.Tick.Host, e.Tick.Self
		r.host = append(r.host, e.Tick.HostSums...)
		t.Threads = t.Threads[:0]
		for _, th := range e.Tick.Threads {
			if th.Ended { // in one tick only, as in the log
				r.ended, b.Ended = append(r.ended, th), append(b.Ended, th)
			} else {
				t.Threads = append(t.Threads, th)
			}
		}
		for i := range e.Tick.Ops {
			from := &e.Tick.Ops[i]
			k := opKey{from.PID, from.Op}
			to := r.ops[k]
			if to == nil {
				to = &tick.Op{PID: from.PID, Op: from.Op}
				r.ops[k] = to
			}
			to.Sum, to.Thinned, to.Hist = from.Sum, from.Thinned, new(*from.Hist)
		}
	case e.Functions != nil:
		b.Functions = append(b.Functions, e.Functions...)
	case e.Stacks != nil:
		b.Stacks = append(b.Stacks, e.Stacks...)
	case e.Ranges != nil:
		b.Ranges = append(b.Ranges, e.Ranges...)
	case e.Labels != nil:
		b.Labels = append(b.Labels, e.Labels...)
	case e.Process != nil:
		r.procs[e.Process.PID] = *e.Process
	case e.Other != nil:
		r.others[e.Other.PID] = *e.Other
	case e.Library != nil:
		k := libKey{e.Library.Path, e.Library.BuildID}
		if i, ok := r.libs[k]; ok {
			t.Libraries[i] = *e.Library
			return
		}
		r.libs[k] = len(t.Libraries)
		t.Libraries = append(t.Libraries, *e.Library)
	case e.Report != nil:
		t.Reports = append(t.Reports, *e.Report)
	case e.Requests != nil:
		r.requests = append(r.requests, e.Requests...)
	case e.Inference != nil:
		r.reads = append(r.reads, e.Inference...)
	default:
		r.facts(e.facts)
		r.gpu.take(e)
	}
}

// stamp makes a tick due.
func (r *Replay) stamp(t *tick.Tick) {
	r.due = true
	r.tick = tick.Tick{Time: t.Time, Started: t.Started, Seq: t.Seq + r.added, Window: t.Window, Records: t.Records, Final: t.Final}
	if r.added > 0 {
		r.tick.Window = t.Time.Sub(r.ticked)
	}
}

// facts applies a tick's facts.
func (r *Replay) facts(f *facts) {
	if f == nil {
		return
	}
	if f.overhead != nil {
		r.last.Overhead = *f.overhead
	}
	for _, pid := range f.processes {
		delete(r.procs, pid)
	}
	for _, pid := range f.others {
		delete(r.others, pid)
	}
	for _, k := range f.ops {
		delete(r.ops, k)
	}
	r.sum = f.chains
}

// Totals fills in Ops, Processes, Threads, Libraries, Reports, Drops and the recorded Host and
// Self, as of what Poll has delivered. An ended thread is in one result only.
func (r *Replay) Totals(t *tick.Tick) error {
	for _, o := range r.ops {
		hist := *o.Hist
		t.Ops = append(t.Ops, tick.Op{PID: o.PID, Op: o.Op, Sum: o.Sum, Hist: &hist, Thinned: o.Thinned})
	}
	t.Processes, t.Others = appendProcesses(t.Processes, r.procs), appendProcesses(t.Others, r.others)
	t.Threads = append(append(t.Threads, r.last.Threads...), r.ended...)
	r.ended = r.ended[:0]
	slices.SortFunc(t.Threads, tick.ByThread)
	t.Libraries = append(t.Libraries, r.last.Libraries...)
	t.Reports = append(t.Reports, r.last.Reports...)
	t.Drops = append(t.Drops, r.last.Drops...)
	t.Host, t.Self, t.Overhead = r.last.Host, r.last.Self, r.last.Overhead
	t.HostSums, r.host = append(t.HostSums, r.host...), nil
	t.Requests, r.requests = append(t.Requests, r.requests...), nil
	t.Inference, r.reads = append(t.Inference, r.reads...), nil
	r.gpu.totals(t)
	return nil
}

// appendProcesses appends processes in order of pid.
func appendProcesses(to []tick.Process, all map[uint32]tick.Process) []tick.Process {
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		to = append(to, all[pid])
	}
	return to
}

// AgentPID returns the pid of the recording process.
func (r *Replay) AgentPID() uint32 { return uint32(r.log.Session().PID) }

// Stop ends the replay at its current position.
func (r *Replay) Stop() error {
	r.stopped = true
	return nil
}

// Close stops the replay. The caller owns the file below the log.
func (r *Replay) Close() error { return r.Stop() }
