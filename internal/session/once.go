package session

import (
	"errors"
	"sync/atomic"

	"ingero/internal/probes"
	"ingero/pkg/events"
)

// once is how far the step launches-once has come. The probes of the runtime's launches are out
// only while it is known where each launch of the driver comes from: they are put in again to
// learn that of a new process or library, and when a launch fails, since the runtime may refuse
// those after it.
type once struct {
	wanted bool // the step is taken
	out    bool // the probes are out

	origins probes.Origins
	left    int         // ticks of learning that are left
	patient int         // how many ticks the next learning takes
	since   int         // ticks since the last
	unknown uint64      // origins that were not known so far
	failed  uint64      // launches
	busy    atomic.Bool // probes go or come
}

// How long origins are learnt, in ticks. When something new comes within relearnt, the next
// time is twice as long.
const (
	learnTicks   = 2
	mostLearning = 120
	relearnt     = 60
)

// onceFits tells whether the probes of the runtime's launches can go: in no time, and where the
// driver's see these launches.
func (s *shedder) onceFits() bool {
	mode := s.tracer.Mode()
	if mode == probes.ModePerf || s.opts.Probes.EntryOnly || s.harm && mode != probes.ModeSession {
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

// tendOnce does at each tick what the step launches-once asks for.
func (s *shedder) tendOnce() error {
	o := &s.once
	if s.stopped || s.MaxOverhead() == 0 || o.busy.Load() {
		return nil
	}
	if !o.wanted && !o.out { // to learn costs each launch two lookups
		if o.origins == probes.OriginsOff {
			return nil
		}
		return s.setOrigins(probes.OriginsOff)
	}
	fits := s.onceFits()
	if o.origins == probes.OriginsOff {
		if !fits {
			return nil
		}
		o.left, o.since = learnTicks, relearnt
		s.libs.takeFresh()
		return s.setOrigins(probes.OriginsLearn)
	}
	fresh, err := s.newOrigins()
	o.since++
	if fresh {
		o.patient = max(learnTicks, o.patient)
		if o.since < relearnt {
			o.patient = min(2*o.patient, mostLearning)
		} else {
			o.patient = learnTicks
		}
		o.left, o.since = o.patient, 0
	}
	want := o.wanted && fits && o.left == 0
	switch {
	case want && !o.out:
		return errors.Join(err, s.setOrigins(probes.OriginsDerive), s.leaveTwice(true))
	case !want && o.out:
		return errors.Join(err, s.leaveTwice(false))
	case !o.out && o.origins == probes.OriginsDerive: // a tick ago they came back
		err = errors.Join(err, s.setOrigins(probes.OriginsLearn))
	}
	o.left = max(0, o.left-1)
	return err
}

// newOrigins tells whether something has come up of which origins are to be learnt.
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

// leaveTwice takes the probes of the runtime's launches out, or puts them in again.
func (s *shedder) leaveTwice(out bool) error {
	rows := map[int]bool{}
	for i, r := range s.tracer.Rows() {
		if out && probes.Doubled(&r) {
			rows[i] = true
		}
	}
	s.libs.leaveTwice(rows)
	s.once.out = out
	s.report.log.Info("launches", "once", out)
	s.once.busy.Store(true)
	s.libs.applyLater(func() { s.once.busy.Store(false) })
	return nil
}
