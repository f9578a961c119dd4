package legacy

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	batch   = 4096 // calls per batch
	perTick = 60   // interval of ticks with the counts of all operations
)

type opKey struct {
	pid uint32
	op  events.Op
}

// writer acts as a session: it gives a store batches and ticks.
type writer struct {
	db    *store.DB
	s     *session
	now   time.Time // recorded time
	seq   uint64
	order order
	batch tick.Batch
	calls uint64
	ops   map[opKey]*tick.Op
	procs map[uint32]*tick.Process
	hosts []host // states not yet written
	host  tick.Host

	unstored uint64 // calls with sums only
	chains   []tick.Chain
	err      error // the first error
}

// event handles an event.
func (w *writer) event(e *event) error {
	for len(w.hosts) > 0 && w.hosts[0].time <= e.time {
		w.order.until(w.hosts[0].time, w.give)
		w.tick()
	}
	p := w.proc(e.pid)
	if e.comm != "" && e.pid == e.tid {
		p.Comm = e.comm
	}
	if op, ok := isCall(e.code); ok {
		w.order.add(callOf(e, op), w.give)
		return w.err
	}
	if kind := lives[e.code]; kind != 0 && e.pid == e.tid {
		w.batch.Procs = append(w.batch.Procs, tick.ProcEvent{Time: e.time, Kind: kind, PID: e.pid, TID: e.tid, Comm: e.comm})
		if kind == tick.ProcExited {
			p.Ended = time.Unix(0, e.time)
		}
	}
	return w.err
}

// lives are the process events. A fork does not name its child.
var lives = map[code]tick.ProcKind{{sourceHost, hostExec}: tick.ProcExeced, {sourceHost, hostExit}: tick.ProcExited}

func (w *writer) proc(pid uint32) *tick.Process {
	p := w.procs[pid]
	if p == nil {
		p = &tick.Process{PID: pid, NSPID: pid}
		w.procs[pid] = p
	}
	return p
}

func (w *writer) op(pid uint32, op events.Op) *tick.Op {
	k := opKey{pid, op}
	o := w.ops[k]
	if o == nil {
		o = &tick.Op{PID: pid, Op: op, Dur: &stats.Sketch{}, Hist: &stats.Hist{}}
		w.ops[k] = o
	}
	return o
}

// give adds a call, in order.
func (w *writer) give(c *events.Call) {
	o := w.op(c.PID, c.Op)
	o.Sum.Calls++
	o.Sum.Done++
	o.Sum.Total += uint64(c.Duration)
	o.Sum.Partial++
	o.Sum.PartialNS += uint64(c.Duration)
	if c.Flags&events.CallFailed != 0 {
		o.Sum.Errors++
	}
	if c.Flags&events.CallNested != 0 {
		o.Sum.Nested++
		w.op(c.PID, c.Parent).Sum.Inner += uint64(c.Duration)
	}
	o.Dur.Add(c.Duration, 1)
	o.Hist.Record(c.Duration, 1)
	w.calls++
	w.advance(c.End())
	if w.batch.Calls = append(w.batch.Calls, *c); len(w.batch.Calls) == batch {
		w.flush()
	}
}

// advance advances the time.
func (w *writer) advance(ns int64) {
	if t := time.Unix(0, ns); t.After(w.now) {
		w.now = t
	}
}

func (w *writer) flush() {
	w.err = errors.Join(w.err, w.db.Batch(&w.batch))
	w.batch = tick.Batch{Calls: w.batch.Calls[:0], Procs: w.batch.Procs[:0]}
}

// tick writes the machine's next state.
func (w *writer) tick() {
	w.advance(w.hosts[0].time)
	w.host, w.hosts = w.hosts[0].Host, w.hosts[1:]
	w.flush()
	t := w.state()
	if w.seq%perTick == 0 {
		t.Ops = w.sums()
	}
	w.err = errors.Join(w.err, w.db.Tick(t))
}

func (w *writer) state() *tick.Tick {
	w.seq++
	t := &tick.Tick{Time: w.now, Started: w.s.Started, Seq: w.seq, Window: time.Second, Records: w.calls, Host: w.host,
		Reports: []tick.Report{{Kind: "imported", Object: "ingero " + w.s.Version, Why: "it did not measure where the time of a call went"}}}
	for _, p := range w.procs {
		t.Processes = append(t.Processes, *p)
	}
	slices.SortFunc(t.Processes, func(a, b tick.Process) int { return cmp.Compare(a.PID, b.PID) })
	if w.unstored > 0 {
		t.Drops = []tick.Drop{{Reason: "summed", Count: w.unstored}}
	}
	return t
}

func (w *writer) sums() []tick.Op {
	out := make([]tick.Op, 0, len(w.ops))
	for _, o := range w.ops {
		c := *o
		c.Dur = o.Dur.Clone()
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b tick.Op) int { return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.PID, b.PID)) })
	return out
}

// end writes the last tick.
func (w *writer) end() error {
	for len(w.hosts) > 0 {
		w.tick()
	}
	w.advance(w.s.stopped)
	w.flush()
	t := w.state()
	t.Final, t.Ops, t.Chains = true, w.sums(), w.chains
	return errors.Join(w.err, w.db.Tick(t))
}
