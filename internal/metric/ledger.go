package metric

import (
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// The parts of a thread's time.
const (
	partOnCPU = iota
	partRunnable
	partThrottled
	partBlocked
	partUnsplit // on the CPU or blocked: the scheduler's figures do not separate them
	parts
)

var partNames = [parts]string{"on_cpu", "runnable", "throttled", "blocked", "on_cpu_or_blocked"}

// betweenCalls is the operation of time outside calls.
const betweenCalls = "between-calls"

// Limits of the state between two ticks.
const (
	mostSpent = 16384
	mostWaits = 8192
)

// ledger sums up where threads' time went. The times of calls and of the gaps before them come from
// their records, the culprits from the records of waits. Waits of an open call may come before the
// call does, so unnamed time is reported only as it rises.
type ledger struct {
	callers map[uint32]struct{} // tids of threads that make calls
	lastTID uint32
	spent   map[opPID]*spent
	last    *spent
	lastKey opPID
	gaps    tick.Gaps
	gap     *tick.Gap // of gapPID
	gapPID  uint32
	waits   map[waitKey]uint64 // of this tick, ns
	series  map[seriesKey]*series
	perPID  map[uint32]int
	over    uint64              // times that a new operation of a process had no room
	listed  map[uint32]struct{} // pids of the tick, for forget
	sync    [1 << 16]bool       // by Op: it waits for the GPU
}

// spent is the time in one operation of one process, ns.
type spent struct{ all, named, rest [parts]uint64 }

type waitKey struct {
	opPID
	part    uint8
	reason  events.Reason
	culprit culpritKind
	name    events.Name
}

// culpritKind is the kind of a culprit without a name, or with a special one.
type culpritKind uint8

const (
	culpritNamed culpritKind = iota
	culpritOwn
	culpritIdle
	culpritIRQ
	culpritOthers
	culpritQuota
	culpritHypervisor
)

var culpritNames = [...]string{"", "own-threads", "idle", "irq", "others", "cpu-quota", "hypervisor"}

type seriesKey struct {
	opPID
	part            uint8
	reason, culprit string
	other           bool // operation, reason and culprit are combined
}

type series struct {
	ns      uint64
	changed time.Time
	name    string // of the process, when labels were made
	labels  []string
}

func (l *ledger) init() {
	l.callers, l.spent, l.waits = map[uint32]struct{}{}, map[opPID]*spent{}, map[waitKey]uint64{}
	l.gaps = tick.Gaps{}
	l.series, l.perPID, l.listed = map[seriesKey]*series{}, map[uint32]int{}, map[uint32]struct{}{}
	for i := range events.Catalog {
		l.sync[events.Catalog[i].Op] = events.Catalog[i].Class == events.ClassSync
	}
}

// batch adds the times of calls, of the gaps before them and of waits.
func (l *ledger) batch(b *tick.Batch) {
	for i := range b.Calls {
		c := &b.Calls[i]
		if c.Flags&(events.CallNested|events.CallUnmeasured|events.CallNoLedger) != 0 {
			continue
		}
		if c.TID != l.lastTID {
			l.lastTID, l.callers[c.TID] = c.TID, struct{}{}
		}
		w := uint64(max(c.Weight, 1))
		if x := l.account(opPID{c.PID, c.Op}); x != nil {
			x.add(w, c.Duration, c.OnCPU, c.Runnable, c.Throttled, c.Flags&events.CallLedgerPartial != 0)
		}
		if l.gap == nil || l.gapPID != c.PID {
			l.gap, l.gapPID = l.gaps.Process(c.PID), c.PID
		}
		l.gap.Add(c)
	}
	for i := range b.Waits {
		l.wait(&b.Waits[i])
	}
}

// account returns an operation's account, nil if there is no room for a new one, which it counts.
func (l *ledger) account(k opPID) *spent {
	if l.last != nil && l.lastKey == k {
		return l.last
	}
	x := l.spent[k]
	if x == nil {
		if len(l.spent) >= mostSpent {
			l.over++
			return nil
		}
		x = &spent{}
		l.spent[k] = x
	}
	l.last, l.lastKey = x, k
	return x
}

// between updates the accounts of the time between calls.
func (l *ledger) between() {
	for pid, g := range l.gaps {
		if x := l.account(opPID{pid: pid}); x != nil {
			x.all = [parts]uint64{partOnCPU: g.OnCPU, partRunnable: g.Runnable, partThrottled: g.Throttled, partBlocked: g.Blocked, partUnsplit: g.Partial}
		}
	}
}

// add splits a time. The parts add up to it, whatever the record says.
func (s *spent) add(weight uint64, total, onCPU, runnable, throttled int64, partial bool) {
	left := uint64(max(total, 0))
	take := func(part int, ns int64) {
		n := min(uint64(max(ns, 0)), left)
		left -= n
		s.all[part] += weight * n
	}
	take(partRunnable, runnable)
	take(partThrottled, throttled)
	if partial {
		s.all[partUnsplit] += weight * left
		return
	}
	take(partOnCPU, onCPU)
	s.all[partBlocked] += weight * left
}

// wait adds a wait's culprit, if its thread makes calls.
func (l *ledger) wait(w *events.Wait) {
	if _, calls := l.callers[w.TID]; !calls {
		return
	}
	k, ns := waitKey{opPID: opPID{w.PID, w.Op}, name: w.Who.Name}, w.Duration
	again := w.Flags&events.WaitPrevious != 0
	switch w.State {
	case events.WaitRunnable:
		k.part = partRunnable
		switch {
		case w.Flags&events.WaitIdle != 0:
			k.culprit = culpritIdle
		case w.Reason == events.ReasonHypervisor:
			k.culprit = culpritHypervisor
		case w.Who.TID == 0 && w.Flags&events.WaitOthers == 0:
			return
		case w.Who.PID == 0:
			k.culprit, ns = culpritOthers, min(max(w.Taken, 0), w.Duration)
		default:
			ns = min(max(w.Taken, 0), w.Duration)
		}
	case events.WaitThrottled:
		k.part, k.culprit = partThrottled, culpritQuota
	case events.WaitBlocked:
		k.part, k.reason = partBlocked, w.Reason
		if w.Flags&events.WaitByIRQ != 0 {
			k.culprit = culpritIRQ
		}
	}
	if again && w.State != events.WaitRunnable || k.part == partBlocked && l.sync[w.Op] || ns <= 0 {
		return
	}
	if k.culprit == culpritNamed && w.Who.PID == w.PID && w.PID != 0 {
		k.culprit = culpritOwn
	}
	if k.culprit != culpritNamed {
		k.name = events.Name{}
	}
	if _, known := l.waits[k]; !known && len(l.waits) >= mostWaits {
		return // no name
	}
	l.waits[k] += uint64(ns)
}

// retire forgets a process.
func (l *ledger) retire(pid uint32) {
	for k := range l.series {
		if k.pid == pid {
			delete(l.series, k)
		}
	}
	for k := range l.spent {
		if k.pid == pid {
			delete(l.spent, k)
		}
	}
	delete(l.perPID, pid)
	delete(l.gaps, pid)
	l.last, l.gap = nil, nil
}
