package session

import (
	"errors"

	"ingero/internal/probes"
	"ingero/pkg/events"
)

// launchesOnce is the state of the step launches-once. The probes of the runtime's launches are
// detached only while the origin of each driver launch is known. They are attached again to learn
// the origins of a new process or library, and after a failed launch, since the runtime may refuse
// later ones.
type launchesOnce struct {
	wanted bool // the step is taken
	out    bool // the probes are out

	origins probes.Origins
	left    int    // remaining ticks of learning
	patient int    // ticks that the next learning takes
	since   int    // ticks since the last learning
	unknown uint64 // unknown origins so far
	failed  uint64 // failed launches so far
}

// Durations of learning, in ticks. If something new appears within relearned, the next learning
// takes twice as long.
const (
	learnTicks   = 2
	mostLearning = 120
	relearned    = 60
)

// launchesOnceFits reports whether the probes of the runtime's launches can be detached: quickly,
// and where the driver's probes see the same launches.
func (s *shedder) launchesOnceFits() bool {
	if s.tracer.Mode() == probes.ModePerf || s.tracer.EntryOnly() {
		return false
	}
	driver := s.libs.users(events.LibCuda)
	fits := false
	for pid := range s.libs.users(events.LibCudart) {
		lives, watched := s.targets.returns(pid)
		if !lives {
			continue
		}
		if !watched || !driver[pid] {
			return false
		}
		fits = true
	}
	return fits
}

// updateLaunchesOnce advances the step launches-once, once a tick.
func (s *shedder) updateLaunchesOnce() error {
	o := &s.once
	if s.stopped || s.MaxOverhead() == 0 || s.libs.applying() {
		return nil
	}
	if !o.wanted && !o.out { // learning costs two lookups a launch
		if o.origins == probes.OriginsOff {
			return nil
		}
		return s.setOrigins(probes.OriginsOff)
	}
	fits := s.launchesOnceFits()
	if o.origins == probes.OriginsOff {
		if !fits {
			return nil
		}
		o.left, o.since = learnTicks, relearned
		s.libs.takeFresh()
		return s.setOrigins(probes.OriginsLearn)
	}
	fresh, err := s.newOrigins()
	o.since++
	if fresh {
		o.patient = max(learnTicks, o.patient)
		if o.since < relearned {
			o.patient = min(2*o.patient, mostLearning)
		} else {
			o.patient = learnTicks
		}
		o.left, o.since = o.patient, 0
	}
	want := o.wanted && fits && o.left == 0
	switch {
	case want && !o.out:
		return errors.Join(err, s.setOrigins(probes.OriginsDerive), s.detachDoubled(true))
	case !want && o.out:
		return errors.Join(err, s.detachDoubled(false))
	case !o.out && o.origins == probes.OriginsDerive: // attached again in the last tick
		err = errors.Join(err, s.setOrigins(probes.OriginsLearn))
	}
	o.left = max(0, o.left-1)
	return err
}

// newOrigins reports whether there are new origins to learn.
func (s *shedder) newOrigins() (bool, error) {
	o := &s.once
	unknown, err := s.tracer.UnknownOrigins()
	failed := s.failed()
	fresh := s.libs.takeFresh() || unknown > o.unknown || failed > o.failed
	o.unknown, o.failed = unknown, failed
	return fresh, err
}

func (s *shedder) setOrigins(to probes.Origins) error {
	s.once.origins = to
	return s.tracer.SetOrigins(to)
}

// detachDoubled detaches the probes of the runtime's launches, or attaches them again.
func (s *shedder) detachDoubled(out bool) error {
	rows := map[int]bool{}
	for i, r := range s.tracer.Rows() {
		if out && probes.Doubled(&r) {
			rows[i] = true
		}
	}
	s.libs.setDoubled(rows)
	s.once.out = out
	s.report.log.Info("launches", "once", out)
	s.libs.applyLater()
	return nil
}
