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

// sheds has the switches of a source, by step of [govern.Steps].
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

// shedder sheds features of a trace, and knows the cost of tracing. Its methods are for the
// goroutine that makes the ticks.
type shedder struct {
	opts      *LiveOptions
	tracer    *probes.Tracer
	report    *reporter
	targets   *targets
	libs      *libraries
	python    func() bool                  // reports whether some process has a known interpreter
	failed    func() uint64                // failed launches so far
	costs     map[probes.Place]probes.Cost // of probes; nil: unknown
	levels    probes.Shed
	again     time.Duration       // cost of each further link that sees a call
	measuring *probes.Measurement // nil: not running
	until     int                 // ticks until a measurement starts or ends
	applied   uint64              // changes of probes that were complete at the last call of partial
	spent     Spent               // Host and Ledger of the last measurement
	refused   bool                // the kernel refuses measurements to this process
	stopped   bool
	once      launchesOnce
}

// measureEvery is the number of ticks between two measurements. A measurement takes a tick.
const measureEvery = 15

// MaxOverhead implements [Sheddable].
func (s *shedder) MaxOverhead() float64 {
	if s.costs == nil { // the cost of probes is unknown
		return 0
	}
	return s.opts.MaxOverhead
}

// ProbeCost implements [Sheddable]. It assumes single-stepped probes for a library if most are.
func (s *shedder) ProbeCost(op events.Op) (timed, counted uint64, known bool) {
	row := op.Row()
	if row == nil || s.costs == nil {
		return 0, 0, false
	}
	at := probes.PlaceEmulated
	if s.libs.mostlySingleStepped(row.Lib) {
		at = probes.PlaceStepped
	}
	c, known := s.costs[at]
	timed, counted = uint64(c.Inside+c.Around), uint64(c.Entry)
	switch once := s.once.out && row.Class == events.ClassLaunch && !row.EntryOnly; {
	case once && probes.Doubled(row):
		return 0, 0, known
	case once && row.Lib == events.LibCuda && !s.targets.countsLaunches(): // the one that is timed
		return timed, timed, known
	}
	return timed, counted, known
}

// Spent implements [Sheddable].
func (s *shedder) Spent() (Spent, error) {
	err := s.updateLaunchesOnce()
	s.spent.Partial = s.partial()
	if s.until--; s.until < 0 && !s.refused && !s.stopped {
		s.until = 0
		if s.measuring == nil {
			var werr error
			if s.measuring, werr = s.tracer.Measure(); werr != nil {
				s.refused = true
				s.report.log.Info("what tracepoints cost is not measured", "error", werr)
			}
		} else {
			var werr error
			s.spent.Host, s.spent.Ledger, werr = s.measuring.End()
			err = errors.Join(err, werr)
			s.measuring, s.until = nil, measureEvery
		}
	}
	calls, own, serr := s.tracer.StackTime()
	s.spent.Stacks, s.spent.OwnStacks = calls, own
	duplicates, derr := s.tracer.Duplicates()
	s.spent.Copies = time.Duration(duplicates) * s.again
	return s.spent, errors.Join(err, serr, derr)
}

// partial reports whether probes were attached or detached since its last call.
func (s *shedder) partial() bool {
	was := s.applied
	s.applied = s.libs.applied.Load()
	return s.libs.begun.Load() != was
}

// stop disables further shedding.
func (s *shedder) stop() { s.stopped = true }

// close ends a running measurement.
func (s *shedder) close() error {
	if s.measuring == nil {
		return nil
	}
	_, _, err := s.measuring.End()
	s.measuring = nil
	return err
}

// Lacks implements [Sheddable].
func (s *shedder) Lacks(step int) bool {
	switch govern.Steps[step].Part {
	case govern.CallStacks, govern.AllStacks:
		return s.opts.Probes.Stacks == probes.StacksNone || govern.Steps[step].Name == "python-off" && !s.python()
	case govern.Records:
		return s.opts.Probes.SamplingRate == 1 // all records were requested
	case govern.Launches, govern.Calls:
		return s.tracer.EntryOnly()
	case govern.Twice:
		return !s.launchesOnceFits()
	}
	return false
}

// Shed implements [Sheddable].
func (s *shedder) Shed(now time.Time, c govern.Change, hot []events.Op) error {
	step := &govern.Steps[c.Step]
	sheds[step.Name](&s.levels, c.Taken)
	if err := s.tracer.Shed(s.levels); err != nil {
		return err
	}
	if step.Part == govern.Host {
		s.spent.Host = 0 // until the next measurement
	}
	if step.Part == govern.Twice {
		s.once.wanted = c.Taken
	}
	var unprobed []string
	again := false
	if step.Part == govern.Hot {
		unprobed, again = s.detachHot(c.Taken, hot)
	}
	at := now.Format("15:04:05 MST")
	r := tick.Report{Kind: "precision-lost", Object: step.Name, Why: fmt.Sprintf(
		"from %s on, %s: tracing cost %.1f %% of the time of the traced processes, --max-overhead allows %.3g %%; affected: %s",
		at, step.Does, 100*c.Share, 100*s.opts.MaxOverhead, step.Cost)}
	if len(unprobed) > 0 {
		r.Why += " (" + strings.Join(unprobed, ", ") + ")"
	}
	if rules := causal.RulesWithout(govern.Sheds(step.Name)); len(rules) > 0 {
		r.Why += "; causes not reported since then, or only in part: " + strings.Join(rules, ", ")
	}
	if !c.Taken {
		r = tick.Report{Kind: "precision-back", Object: step.Name, Why: fmt.Sprintf("restored at %s: until then, %s", at, step.Does)}
	}
	if again { // the operations without probes since earlier keep their report
		s.report.add(r)
	} else {
		s.report.replace(r.Object, []string{r.Kind}, r)
	}
	s.report.uncounted(at, unprobed)
	s.report.log.Info("overhead", "step", step.Name, "taken", c.Taken, "share", c.Share)
	s.report.notify(Notice{Kind: NoticeCounted, Reason: r.Why})
	return nil
}

// CountLaunches implements [Sheddable].
func (s *shedder) CountLaunches(pids []uint32) error {
	var errs []error
	for pid, on := range s.targets.countLaunches(pids) {
		errs = append(errs, s.tracer.LaunchesEntryOnly(pid, on))
		s.report.log.Info("launches", "pid", pid, "counted_only", on)
	}
	return errors.Join(errs...)
}

// detachHot detaches the probes of operations from all libraries, or attaches all again, on its own
// goroutine. It returns the names of the operations that lose their probes, and whether others have
// lost theirs before.
func (s *shedder) detachHot(on bool, hot []events.Op) (names []string, again bool) {
	rows := map[int]bool{}
	for i, r := range s.tracer.Rows() {
		if on && (slices.Contains(hot, r.Op) || s.once.out && probes.Doubled(&r)) {
			rows[i] = true
		}
	}
	was := s.libs.setHot(rows)
	for _, i := range slices.Sorted(maps.Keys(rows)) {
		if !was[i] {
			names = append(names, s.tracer.Rows()[i].Name)
		}
	}
	if !s.stopped {
		s.libs.applyLater()
	}
	return names, on && len(was) > 0
}
