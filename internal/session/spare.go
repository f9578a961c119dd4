package session

import (
	"fmt"
	"slices"
	"time"

	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// spare weighs what probes on launches took in a tick, and acts on it.
func (r *runner) spare(g Governed, t *tick.Tick) error {
	if r.governor.Budget = g.LaunchBudget(); r.governor.Budget == 0 {
		return nil
	}
	for _, s := range r.governor.Tick(t.Time, t.Window, launchUses(g, t)) {
		if err := g.CountLaunches(t.Time, s); err != nil {
			return err
		}
	}
	return nil
}

// launchUses adds up the launches of each process that lives. Those of a process that
// has none timed cannot be made cheaper, and cost nothing here.
func launchUses(g Governed, t *tick.Tick) []govern.Use {
	var out []govern.Use
	watched := map[uint32]bool{}
	at := map[uint32]int{}
	for i := range t.Processes {
		if p := &t.Processes[i]; p.Ended.IsZero() {
			at[p.PID] = len(out)
			out = append(out, govern.Use{PID: p.PID})
		}
	}
	for i := range t.Ops {
		o := &t.Ops[i]
		j, lives := at[o.PID]
		row := o.Op.Row()
		if !lives || row == nil || row.Class != events.ClassLaunch || row.EntryOnly {
			continue
		}
		timed, counted, known := g.ProbeCost(o.Op)
		if !known {
			continue
		}
		only := min(o.Last.Unmeasured, o.Last.Calls)
		watched[o.PID] = watched[o.PID] || only < o.Last.Calls
		out[j].Launches += o.Last.Calls - min(o.Last.Nested, o.Last.Calls)
		out[j].Cost += time.Duration((o.Last.Calls-only)*timed + only*counted)
	}
	for i := range out {
		if !watched[out[i].PID] {
			out[i].Cost = 0
		}
	}
	return out
}

// LaunchBudget implements [Governed].
func (l *Live) LaunchBudget() float64 { return l.ProbeBudget }

// ProbeCost implements [Governed]. Probes of a library count as dear when most of
// them are.
func (l *Live) ProbeCost(op events.Op) (timed, counted uint64, known bool) {
	row := op.Row()
	if row == nil || l.costs == nil {
		return 0, 0, false
	}
	at := probes.PlaceEmulated
	l.mu.Lock()
	for _, lib := range l.order {
		if lib.Lib == row.Lib && 2*lib.attached.Stepped > lib.attached.Probes {
			at = probes.PlaceStepped
		}
	}
	l.mu.Unlock()
	c, known := l.costs[at]
	return uint64(c.Inside + c.Around), uint64(c.Entry), known
}

// CountLaunches implements [Governed].
func (l *Live) CountLaunches(now time.Time, s govern.Switch) error {
	if err := l.tracer.LaunchesEntryOnly(s.PID, s.Counted); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.procs[s.PID]
	if p == nil || !p.Ended.IsZero() {
		return nil
	}
	p.Counted = s.Counted
	who := fmt.Sprintf("%s (%d)", p.Comm, s.PID)
	kind, how, took := "launches-timed", "timed again", "would take"
	if s.Counted {
		kind, how, took = "launches-counted", "counted and not timed", "took"
	}
	r := tick.Report{Kind: kind, Object: who, Why: fmt.Sprintf("launches of %s are %s from %s on: the probes on them %s %.1f %% of a CPU, and may take %.3g %% (--probe-budget)",
		who, how, now.Format("15:04:05 MST"), took, 100*s.Share, 100*l.ProbeBudget)}
	// Of each kind the last is kept for a process; what is recorded has them all.
	l.reports = slices.DeleteFunc(l.reports, func(x tick.Report) bool { return x.Kind == kind && x.Object == who })
	l.addReports(r)
	l.Log.Info("launches", "pid", s.PID, "counted_only", s.Counted, "share", s.Share)
	l.Notify(Notice{Kind: NoticeCounted, PID: s.PID, Comm: p.Comm, Why: r.Why})
	return nil
}
