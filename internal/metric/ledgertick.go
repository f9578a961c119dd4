package metric

import (
	"maps"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// times updates the series of the ledger, and of each process's accounts.
func (m *Meter) times(t *tick.Tick) {
	l := &m.ledger
	for k, ns := range l.waits {
		x := l.spent[k.opPID]
		if x == nil {
			if x = l.account(k.opPID); x == nil {
				continue
			}
		}
		x.named[k.part] += ns
		who := culpritNames[k.culprit]
		if k.culprit == culpritNamed {
			who = text(k.name.String())
		}
		reason := ""
		if k.part == partBlocked {
			reason = k.reason.String()
		}
		m.spend(seriesKey{opPID: k.opPID, part: k.part, reason: reason, culprit: who}, ns)
	}
	clear(l.waits)
	l.between()
	for k, x := range l.spent {
		for part := range x.all {
			if x.all[part] <= x.named[part]+x.rest[part] {
				continue
			}
			more := x.all[part] - x.named[part] - x.rest[part]
			x.rest[part] += more
			s := seriesKey{opPID: k, part: uint8(part)}
			if l.sync[k.op] && part != partRunnable && part != partThrottled {
				s.reason = "gpu"
			}
			m.spend(s, more)
		}
	}
	m.over[LedgerTime] += l.over
	l.over = 0
	m.forget(t)
	clear(l.callers)
	l.lastTID = 0
	for i := range t.Threads {
		if x := &t.Threads[i]; !x.Enrolled {
			l.callers[x.TID] = struct{}{}
		}
	}
	m.emitLedger()
	m.breakdowns(t)
}

// forget deletes the accounts of processes that are not in the tick and have no series of their own:
// their time is in the series of all others. It does so once there are many, and allocates no memory.
func (m *Meter) forget(t *tick.Tick) {
	l := &m.ledger
	if len(l.gaps) <= len(t.Processes)+len(m.procs.byPID) && len(l.spent) <= mostSpent/2 {
		return
	}
	clear(l.listed)
	for i := range t.Processes {
		l.listed[t.Processes[i].PID] = struct{}{}
	}
	gone := func(pid uint32) bool {
		_, listed := l.listed[pid]
		return !listed && m.procs.byPID[pid] == nil
	}
	maps.DeleteFunc(l.spent, func(k opPID, _ *spent) bool { return gone(k.pid) })
	maps.DeleteFunc(l.gaps, func(pid uint32, _ *tick.Gap) bool { return gone(pid) })
	l.last, l.gap = nil, nil
}

// spend adds time to a series. Without room for a series, it adds to the process's combined one,
// and processes without room share one.
func (m *Meter) spend(k seriesKey, ns uint64) {
	l := &m.ledger
	if p := m.procs.byPID[k.pid]; p == nil {
		k = seriesKey{part: k.part, other: true}
	}
	x := l.series[k]
	if x == nil && !k.other && (len(l.series) >= mostLedger || l.perPID[k.pid] >= mostPerLedger) && !m.evict(k.pid) {
		m.over[LedgerTime]++
		k = seriesKey{opPID: opPID{pid: k.pid}, part: k.part, other: true}
		x = l.series[k]
	}
	if x == nil {
		x = &series{}
		l.series[k] = x
		if !k.other {
			l.perPID[k.pid]++
		}
	}
	x.ns += ns
	x.changed = m.time
}

// evict removes a stale series of the process to make room.
func (m *Meter) evict(pid uint32) bool {
	l := &m.ledger
	for k, x := range l.series {
		if k.pid == pid && k.culprit != "" && m.time.Sub(x.changed) > stale {
			delete(l.series, k)
			l.perPID[pid]--
			return true
		}
	}
	return false
}

// emitLedger makes the points.
func (m *Meter) emitLedger() {
	for k, x := range m.ledger.series {
		p := m.procs.byPID[k.pid]
		if p == nil {
			p = &m.procs.others
		}
		if x.labels == nil || x.name != p.name {
			op, reason, culprit := betweenCalls, k.reason, k.culprit
			if k.op != 0 {
				op = k.op.String()
			}
			if k.other {
				op, reason, culprit = Other, "", Other
			}
			x.name, x.labels = p.name, p.withLabels(op, partNames[k.part], reason, culprit)
		}
		m.point(LedgerTime, Point{Labels: x.labels, Value: seconds(x.ns)})
	}
}

// breakdowns makes the points of each process's exact account.
func (m *Meter) breakdowns(t *tick.Tick) {
	for i := range t.Breakdowns {
		b := &t.Breakdowns[i]
		m.procs.raise(b.PID, account(b))
		if p := m.procs.byPID[b.PID]; p != nil && b.Loop != nil {
			p.stepsOf(b.Loop)
			p.stepsOf(b.Loop.Now)
		}
	}
	for i := range t.Threads {
		x := &t.Threads[i]
		if p := m.procs.byPID[x.PID]; p != nil && len(x.Open) > 0 && !x.Ended {
			p.open = max(p.open, time.Duration(x.Until-x.Open[0].Start))
		}
	}
	m.procs.each(func(p *process) {
		for place := range p.spent {
			x := &p.spent[place]
			for part, ns := range [...]uint64{x.OnCPU, x.Runnable, x.Throttled, x.Blocked} {
				m.set(ThreadTime, seconds(ns), p.withLabels(tick.Place(place).String(), partNames[part])...)
			}
		}
		m.set(StepLost, seconds(p.critical), p.labels...)
		if p == &m.procs.others {
			return
		}
		m.set(OpenCallAge, p.open.Seconds(), p.labels...)
		if p.steps.Count() > 0 {
			if p.dist == nil || p.dist.Count() != p.steps.Count() {
				p.dist = &Distribution{sketch: p.steps.Clone()}
			}
			m.point(StepDuration, Point{Labels: p.labels, Dist: p.dist})
		}
	})
}

// account returns the sums of a process's account.
func account(b *tick.Breakdown) *sums {
	now := &sums{critical: b.Critical}
	for j := range b.ByThread {
		for place := range now.spent {
			now.spent[place].Add(&b.ByThread[j].In[place].Times)
		}
	}
	return now
}

// loopKey identifies a loop of a process: by its ID, or else by the rest. The waits of a marked range may
// change from step to step.
type loopKey struct {
	id    uint64
	tid   uint32
	op    events.Op
	waits int
	marks string // name of the range
}

// loopSteps are the counted steps of a loop.
type loopSteps struct {
	n       uint64
	seen    uint64 // the process's turn
	lengths *stats.Sketch
}

// mostLoops bounds the loops of a process whose steps are counted; the one that was the main or current loop
// longest ago makes room.
const mostLoops = 64

// stepsOf adds a loop's steps that are not counted yet; of a new loop all. A process's main and current loop
// may change, and change back: each step counts once.
func (p *process) stepsOf(now *tick.Loop) {
	if now == nil || now.Lengths == nil {
		return
	}
	k := loopKey{tid: now.TID, op: now.Op, waits: now.Waits, marks: now.Range}
	switch {
	case now.ID != 0:
		k = loopKey{id: now.ID}
	case k.marks != "":
		k.waits = 0
	}
	p.turn++
	was := p.loops[k]
	if was != nil {
		was.seen = p.turn
	}
	switch {
	case was != nil && was.n == now.Steps:
		return
	case was != nil && was.n < now.Steps:
		more := now.Lengths.Clone()
		more.Sub(was.lengths)
		p.steps.Merge(more)
	default:
		p.steps.Merge(now.Lengths)
	}
	if p.loops == nil {
		p.loops = map[loopKey]*loopSteps{}
	}
	if was == nil && len(p.loops) >= mostLoops {
		oldest := k
		for at, x := range p.loops {
			if oldest == k || x.seen < p.loops[oldest].seen {
				oldest = at
			}
		}
		delete(p.loops, oldest)
	}
	p.loops[k] = &loopSteps{now.Steps, p.turn, now.Lengths.Clone()}
}
