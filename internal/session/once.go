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
	wanted bool         // the step is taken
	out    bool         // the probes are out
	rows   map[int]bool // that have no probes for now; mu of Live
	fresh  bool         // a process has begun to use a runtime; mu of Live

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
func (l *Live) onceFits() bool {
	if l.tracer.Mode() == probes.ModePerf || l.Probes.EntryOnly || l.seccompHarm && l.tracer.Mode() != probes.ModeSession {
		return false
	}
	l.mu.Lock()
	driver := map[uint32]bool{}
	runtime, harm := map[uint32]bool{}, false
	for _, lib := range l.order {
		for pid := range lib.users {
			p := l.procs[pid]
			if p == nil || !p.Ended.IsZero() {
				continue
			}
			switch lib.Lib {
			case events.LibCuda:
				driver[pid] = true
			case events.LibCudart:
				runtime[pid], harm = true, harm || p.entryOnly
			}
		}
	}
	l.mu.Unlock()
	for pid := range runtime {
		if !driver[pid] {
			return false
		}
	}
	return len(runtime) > 0 && !harm
}

// tendOnce does at each tick what the step launches-once asks for.
func (l *Live) tendOnce() error {
	o := &l.shed.once
	if l.stopped || l.MaxOverhead() == 0 || o.busy.Load() {
		return nil
	}
	if !o.wanted && !o.out { // to learn costs each launch two lookups
		if o.origins == probes.OriginsOff {
			return nil
		}
		return l.setOrigins(probes.OriginsOff)
	}
	fits := l.onceFits()
	if o.origins == probes.OriginsOff {
		if !fits {
			return nil
		}
		o.left, o.since = learnTicks, relearnt
		l.mu.Lock()
		o.fresh = false
		l.mu.Unlock()
		return l.setOrigins(probes.OriginsLearn)
	}
	fresh, err := l.newOrigins()
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
		return errors.Join(err, l.setOrigins(probes.OriginsDerive), l.leaveTwice(true))
	case !want && o.out:
		return errors.Join(err, l.leaveTwice(false))
	case !o.out && o.origins == probes.OriginsDerive: // a tick ago they came back
		err = errors.Join(err, l.setOrigins(probes.OriginsLearn))
	}
	o.left = max(0, o.left-1)
	return err
}

// newOrigins tells whether something has come up of which origins are to be learnt.
func (l *Live) newOrigins() (bool, error) {
	o := &l.shed.once
	unknown, err := l.tracer.UnknownOrigins()
	var failed uint64
	l.mu.Lock()
	for key, x := range l.accounts {
		if probes.Doubled(&l.tracer.Rows()[key.row]) {
			failed += x.sum.Errors
		}
	}
	fresh := o.fresh || unknown > o.unknown || failed > o.failed
	o.fresh = false
	l.mu.Unlock()
	o.unknown, o.failed = unknown, failed
	return fresh, err
}

func (l *Live) setOrigins(to probes.Origins) error {
	l.shed.once.origins = to
	return l.tracer.SetOrigins(to)
}

// leaveTwice takes the probes of the runtime's launches out, or puts them in again.
func (l *Live) leaveTwice(out bool) error {
	rows := map[int]bool{}
	for i, r := range l.tracer.Rows() {
		if out && probes.Doubled(&r) {
			rows[i] = true
		}
	}
	l.mu.Lock()
	l.shed.once.rows = rows
	l.mu.Unlock()
	l.shed.once.out = out
	l.Log.Info("launches", "once", out)
	l.shed.once.busy.Store(true)
	l.work.Go(func() {
		l.applyHot()
		l.shed.once.busy.Store(false)
	})
	return nil
}
