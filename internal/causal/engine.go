package causal

import (
	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Engine finds causes. It is not safe for concurrent use.
type Engine struct {
	agent     uint32
	series    map[uint32]*series // by TID
	causes    causes
	quota     quotas // steps kept per second and series
	ticks     uint64
	have      Needs
	kept      map[string]*kept // chains, by ID
	leftOut   map[string]bool  // IDs of the chains that the last tick left out
	left      uint64
	histories map[uint32]*ProcessHistory
	servers   map[uint32]*Server // by PID
	host      []HostSample       // host events of the last minute, oldest first
	devices   devices
	relations relations
	unseen    []unseen // shedding levels active in the last minute
	// graphsKnown: steps say whether they launched graphs (ledger.Step.GraphsKnown).
	graphsKnown bool
	scratch     scratch
}

// New returns an engine without steps. agentPID is the PID of ingero itself, a culprit like any
// other, but marked.
func New(agentPID uint32) *Engine {
	return &Engine{
		agent: agentPID, series: map[uint32]*series{}, causes: newCauses(),
		quota: quotaOf(maxRecords), kept: map[string]*kept{}, histories: map[uint32]*ProcessHistory{},
		servers: map[uint32]*Server{},
	}
}

// Add takes in steps. It does not retain them.
func (e *Engine) Add(steps []ledger.Step) {
	for i := range steps {
		e.add(&steps[i])
	}
}

func (e *Engine) add(s *ledger.Step) {
	x := e.seriesOf(s)
	if x == nil || s.From < 0 || s.Length() <= 0 {
		return
	}
	x.period = s.Period
	e.relations.add(s)
	if len(s.Waits) > 0 {
		e.have |= NeedWaits
	}
	if len(s.Ops) > 0 {
		e.have |= NeedCalls
	}
	var r record
	e.record(&r, s)
	r.closedAt = x.see(s.Kind, s.Stack)
	r.early = x.steps < earlySteps
	x.steps++
	x.push(&r, e.quota)
}

// seriesOf returns the series of a step's thread, or nil if the table is full.
func (e *Engine) seriesOf(s *ledger.Step) *series {
	x := e.series[s.TID]
	if x != nil && x.pid == s.PID {
		return x
	}
	if x == nil && len(e.series) >= maxSeries {
		return nil
	}
	x = &series{pid: s.PID, tid: s.TID, rng: uint64(s.TID)<<1 | 1, newest: s.To / 1e9}
	e.series[s.TID] = x
	e.quota = quotaOf(max(maxRecords/windowSeconds/len(e.series), 4))
	return x
}

// record fills r from a step.
func (e *Engine) record(r *record, s *ledger.Step) {
	*r = record{
		from: s.From, length: s.Length(), kind: s.Kind, op: s.Op, period: s.Period, loss: s.Loss, behind: s.Behind,
		launches: s.Launches, marks: s.Marks, shed: e.shed(s.PID, s.From, s.To),
	}
	r.graphsUnknown = r.shed&graphsOff != 0 || !s.GraphsKnown && r.shed&thinned != 0
	if s.GraphsKnown && !e.graphsKnown {
		e.knowGraphs()
	}
	p := &s.Parts
	r.gpu = p.GPUWait
	r.cpu, r.lead, r.gap, r.slept = p.CallCPU+p.GapCPU, s.Lead, p.GapCPU, p.Blocked[events.ReasonSleep]
	r.codeAt = s.CodeStack
	r.waited = p.Runnable + p.Throttled + p.SyncRunnable + p.SyncThrottled
	for _, b := range p.Blocked {
		r.blocked += b
	}
	for why, ns := range p.Blocked {
		if forData(events.Reason(why)) {
			r.awaited += ns
		}
	}
	longest := int64(0)
	for i := range s.Waits {
		w := &s.Waits[i]
		if w.State == events.WaitBlocked && forData(w.Reason) {
			r.worked += int64(w.Waker.OnCPU)
			r.starved += int64(w.Waker.Runnable + w.Waker.Throttled)
		}
		if w.State == events.WaitBlocked && w.Reason == events.ReasonSleep && w.NS > longest {
			longest, r.sleptAt = w.NS, w.Stack
		}
	}
	list := parts(e.scratch.parts[:0], s, &e.relations)
	e.scratch.parts = list
	for i := range list {
		if n, ok := e.causes.attribute(&list[i]); ok {
			e.keep(r, part{list[i].NS, n, list[i].Critical, shareOf(list[i].Unknown, list[i].NS)})
		}
	}
	r.unknown = waitsForUnknown(s)
	seen := uint32(0)
	for i := range s.Ops {
		if o := &s.Ops[i]; o.Op == 0 || classOf(o.Op) == events.ClassLaunch {
			seen += o.Seen
		}
		if o := &s.Ops[i]; o.Op != 0 && o.Seen > 0 {
			r.keepOwn(ownTime{o.Own, o.Seen, max(o.Count, o.Seen), o.Op, o.Size, o.Slowest, o.SlowestNS})
		}
	}
	r.unseen = seen < s.Launches || r.shed&uncounted != 0
}

// waitsForUnknown reports whether a step waited for another thread whose activity is unknown for
// most of the wait.
func waitsForUnknown(s *ledger.Step) bool {
	for i := range s.Waits {
		w := &s.Waits[i]
		if w.State == events.WaitBlocked && forAnother(w.Reason) && w.NS >= leastSlow && int64(w.Waker.Total()) < w.NS/2 {
			return true
		}
	}
	return false
}

// keep adds a part. If the record is full, the part joins one of the same rule, baseline and group,
// or replaces the smallest if that is smaller.
func (e *Engine) keep(r *record, p part) {
	least, alike := 0, -1
	c := &e.causes.list[p.cause]
	for i := range r.parts[:r.nparts] {
		x := &r.parts[i]
		if x.cause == p.cause && x.critical == p.critical {
			x.add(&p)
			return
		}
		if x.ns < r.parts[least].ns {
			least = i
		}
		if o := &e.causes.list[x.cause]; x.critical == p.critical && o.id.rule == c.id.rule && o.baseline == c.baseline && o.group == c.group {
			alike = i
		}
	}
	switch {
	case r.nparts < maxParts:
		r.parts[r.nparts] = p
		r.nparts++
	case alike >= 0:
		r.parts[alike].add(&p)
	case p.ns > r.parts[least].ns:
		r.parts[least] = p
	}
}

func (r *record) keepOwn(o ownTime) {
	if r.nown < maxOwn {
		r.own[r.nown] = o
		r.nown++
		return
	}
	least := 0
	for i := range r.own {
		if r.own[i].ns < r.own[least].ns {
			least = i
		}
	}
	if o.ns > r.own[least].ns {
		r.own[least] = o
	}
}

// Tick returns the chains of a tick, the most severe first, and the causes that cannot be reported.
// It does not modify the tick.
func (e *Engine) Tick(t *tick.Tick) ([]tick.Chain, []tick.BlindSpot) {
	e.ticks++
	e.note(t)
	e.noteRequests(t)
	e.relations.note(t)
	e.noteInputs(t)
	e.look(t)
	w := e.window(t)
	w.claim()
	found := leaveOut(merge(w.find()))
	chains := e.reportChains(found, t)
	e.forget(w)
	return chains, e.blindSpots()
}

// noteInputs records which inputs a tick contains.
func (e *Engine) noteInputs(t *tick.Tick) {
	for _, x := range []struct {
		need  Needs
		there bool
	}{{NeedHost, len(t.HostSums) > 0}, {NeedState, len(t.States) > 0}, {NeedGPUs, len(t.GPUs) > 0}, {NeedXids, len(t.Xids) > 0},
		{NeedRequests, len(t.Requests) > 0}} {
		if x.there {
			e.have |= x.need
		}
	}
}

// forget drops threads and culprits that have left the window. A thread that hangs in a collective stays.
func (e *Engine) forget(w *Window) {
	now, hangs := w.Tick.Time.Unix(), w.hanging()
	for tid, s := range e.series {
		if now-s.newest > 2*windowSeconds && !hangs[s.pid] {
			delete(e.series, tid)
		}
	}
	if e.ticks%windowSeconds == 0 {
		e.causes.sweep(e.series)
	}
}
