package session

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ingero/internal/causal"
	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// sheds are the switches of a source, by step of [govern.Steps].
var sheds = map[string]func(s *probes.Shed, on bool){
	"launches-once":    func(*probes.Shed, bool) {}, // of libraries: see once
	"stacks-rare":      func(s *probes.Shed, on bool) { s.RareStacks = on },
	"records-thin":     func(s *probes.Shed, on bool) { s.Thin = level(on, 3, 0) },
	"python-off":       func(s *probes.Shed, on bool) { s.NoPython = on },
	"launches-counted": func(*probes.Shed, bool) {}, // of processes: see CountLaunches
	"stacks-off":       func(s *probes.Shed, on bool) { s.NoStacks = on },
	"records-least":    func(s *probes.Shed, on bool) { s.Thin = level(on, 6, 3) },
	"host-off":         func(s *probes.Shed, on bool) { s.NoHost = on },
	"calls-counted":    func(s *probes.Shed, on bool) { s.Calls = on },
	"hot-off":          func(*probes.Shed, bool) {}, // of libraries, not of programs
}

func level(on bool, taken, back uint32) uint32 {
	if on {
		return taken
	}
	return back
}

// shedding is what a source does without.
type shedding struct {
	probes.Shed
	hot      map[int]bool     // rows without probes; mu of Live
	weighing *probes.Weighing // nil: none goes on
	until    int              // ticks to the next step of it
	spent    Spent            // Host and Ledger as of the last
	refused  bool             // the kernel measures nothing for this process
	once     once
}

// Between two weighings pass so many ticks; one takes a tick.
const weighEvery = 15

// MaxOverhead implements [Sparing].
func (l *Live) MaxOverhead() float64 {
	if l.costs == nil { // nothing can be said of probes then
		return 0
	}
	return l.LiveOptions.MaxOverhead
}

// Spent implements [Sparing].
func (l *Live) Spent() (Spent, error) {
	s := &l.shed
	err := l.tendOnce()
	if s.until--; s.until < 0 && !s.refused && !l.stopped {
		s.until = 0
		if s.weighing == nil {
			var werr error
			if s.weighing, werr = l.tracer.Weigh(); werr != nil {
				s.refused = true
				l.Log.Info("what tracepoints cost is not measured", "error", werr)
			}
		} else {
			var werr error
			s.spent.Host, s.spent.Ledger, werr = s.weighing.End()
			err = errors.Join(err, werr)
			s.weighing, s.until = nil, weighEvery
		}
	}
	stacks, serr := l.tracer.StackTime()
	s.spent.Stacks = stacks
	return s.spent, errors.Join(err, serr)
}

// endWeighing ends one that goes on, with the session.
func (s *shedding) endWeighing() error {
	if s.weighing == nil {
		return nil
	}
	_, _, err := s.weighing.End()
	s.weighing = nil
	return err
}

// Lacks implements [Sparing].
func (l *Live) Lacks(step int) bool {
	switch govern.Steps[step].Part {
	case govern.Stacks:
		return l.Probes.Stacks == probes.StacksNone || govern.Steps[step].Name == "python-off" && !l.pys.any()
	case govern.Records:
		return l.Probes.SamplingRate == 1 // all were asked for
	case govern.Launches, govern.Calls:
		return l.Probes.EntryOnly
	case govern.Twice:
		return !l.onceFits()
	}
	return false
}

// Shed implements [Sparing].
func (l *Live) Shed(now time.Time, c govern.Change, hot []events.Op) error {
	step := &govern.Steps[c.Step]
	sheds[step.Name](&l.shed.Shed, c.Taken)
	if err := l.tracer.Shed(l.shed.Shed); err != nil {
		return err
	}
	if step.Part == govern.Twice {
		l.shed.once.wanted = c.Taken
	}
	object := step.Name
	if step.Part == govern.Hot {
		object = l.leaveHot(c.Taken, hot)
	}
	at := now.Format("15:04:05 MST")
	r := tick.Report{Kind: "precision-lost", Object: step.Name, Why: fmt.Sprintf(
		"from %s on %s, to spare the traced processes: tracing took %.1f %% of their time, and may take %.3g %% (--max-overhead); the worse for it: %s",
		at, step.Does, 100*c.Share, 100*l.LiveOptions.MaxOverhead, step.Cost)}
	if object != step.Name {
		r.Why += " (" + object + ")"
	}
	if rules := causal.RulesWithout(govern.Takes(step.Name)); len(rules) > 0 {
		r.Why += "; causes that are not told since, or not all of them: " + strings.Join(rules, ", ")
	}
	if !c.Taken {
		r = tick.Report{Kind: "precision-back", Object: step.Name, Why: fmt.Sprintf("until %s %s; from then on that is as before", at, step.Does)}
	}
	l.mu.Lock()
	l.reports = slices.DeleteFunc(l.reports, func(x tick.Report) bool { return x.Kind == r.Kind && x.Object == r.Object })
	l.addReports(r)
	l.mu.Unlock()
	l.Log.Info("overhead", "step", step.Name, "taken", c.Taken, "share", c.Share)
	l.Notify(Notice{Kind: NoticeCounted, Why: r.Why})
	return nil
}

// CountLaunches implements [Sparing].
func (l *Live) CountLaunches(pids []uint32) error {
	l.mu.Lock()
	changed := map[uint32]bool{}
	for pid, p := range l.procs {
		if on := slices.Contains(pids, pid); on != p.Counted && p.Ended.IsZero() {
			p.Counted, changed[pid] = on, on
		}
	}
	l.mu.Unlock()
	var errs []error
	for pid, on := range changed {
		errs = append(errs, l.tracer.LaunchesEntryOnly(pid, on))
		l.Log.Info("launches", "pid", pid, "counted_only", on)
	}
	return errors.Join(errs...)
}

// leaveHot takes the probes of operations out of all libraries, or puts all in again,
// and returns the operations' names. It takes a while, on a goroutine of its own.
func (l *Live) leaveHot(on bool, hot []events.Op) string {
	var names []string
	rows := map[int]bool{}
	for i, r := range l.tracer.Rows() {
		if on && (slices.Contains(hot, r.Op) || l.shed.once.out && probes.Doubled(&r)) {
			rows[i] = true
			names = append(names, r.Name)
		}
	}
	l.mu.Lock()
	l.shed.hot = rows
	l.mu.Unlock()
	if !l.stopped {
		l.work.Go(l.applyHot)
	}
	return strings.Join(names, ", ")
}

// applyHot has all libraries do without the probes that are not wanted now.
func (l *Live) applyHot() {
	l.leaving.Lock()
	defer l.leaving.Unlock()
	l.mu.Lock()
	libs, rows := slices.Clone(l.order), make([]map[int]bool, len(l.order))
	for i, lib := range libs {
		rows[i] = map[int]bool{}
		for _, of := range []map[int]bool{l.shed.hot, l.shed.once.rows, lib.without} {
			maps.Copy(rows[i], of)
		}
	}
	l.mu.Unlock()
	for i, lib := range libs {
		if err := lib.attached.Leave(rows[i]); err != nil {
			l.failed(0, lib.Path, err)
		}
	}
}
