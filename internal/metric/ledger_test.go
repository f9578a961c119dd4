package metric

import (
	"maps"
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// crowd makes each of some processes call 20 operations for 10 ns each.
func (w *world) crowd(from, n uint32) {
	var b tick.Batch
	for pid := from; pid < from+n; pid++ {
		for i := range 20 {
			b.Calls = append(b.Calls, w.call(pid, events.Catalog[i].Op, events.Call{Duration: 10, OnCPU: 10}))
		}
	}
	w.batch(b)
}

// However many processes without series of their own come and go, the time of later ones counts.
func TestProcessesComeAndGo(t *testing.T) {
	const rounds, each = 20, 100
	w := newWorld(t)
	w.crowd(1, mostProcesses)
	w.tick(nil)
	for round := range uint32(rounds) {
		w.pids = w.pids[:mostProcesses] // the others have ended
		maps.DeleteFunc(w.ops, func(k opPID, _ *tick.Op) bool { return k.pid > mostProcesses })
		w.crowd(1000+round*each, each)
		s := w.tick(nil)
		near(t, "the ledger's sum", sum(s, LedgerTime), float64(mostProcesses+(round+1)*each)*200e-9)
		near(t, "what had no room", value(s, SeriesOver, Rows[LedgerTime].Name), 0)
	}
}

// Forgetting processes allocates no memory.
func TestForgetAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	l := &w.m.ledger
	now := &tick.Tick{Processes: make([]tick.Process, 100)}
	for i := range now.Processes {
		now.Processes[i].PID = uint32(i + 1)
	}
	gone := &spent{}
	n := testing.AllocsPerRun(10, func() {
		for pid := range uint32(mostSpent/2 + 1) {
			l.spent[opPID{pid: pid + 1}] = gone
		}
		w.m.forget(now)
	})
	if n > 0 || len(l.spent) != len(now.Processes) {
		t.Errorf("%v allocations, %d accounts", n, len(l.spent))
	}
}

// Operations of processes beyond the limit are counted.
func TestFullLedger(t *testing.T) {
	w := newWorld(t)
	w.crowd(1, mostSpent/20)
	s := w.tick(nil)
	if n := value(s, SeriesOver, Rows[LedgerTime].Name); !(n > 0) {
		t.Errorf("%v times without room", n)
	}
}
