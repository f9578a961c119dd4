//go:build measure || smoke

package incidents

import (
	"os"
	"time"

	"ingero/test/tapes"
)

// Types that judge runs.
type (
	outcome = tapes.Outcome
	truth   = tapes.Truth
	lost    = tapes.Lost
	verdict = tapes.Verdict
)

// outcome returns the result of the run.
func (r *run) outcome(name string, n uint64, began time.Time) *outcome {
	r.t.Helper()
	if pids := r.clock.pids(); len(pids) > 0 {
		r.pids = pids
	}
	r.steps = r.clock.steps()
	if r.server != nil {
		r.endServer()
	}
	o := &outcome{Name: name, Seed: n, Began: began, Until: r.until, Steps: len(r.steps), Agent: r.agent, Stolen: r.stolen, Victims: r.pids,
		Ours: append(byFault(r), r.others...), Self: os.Getpid(), Also: r.plan.also, Heard: r.tape.Heard()}
	if r.plan.victim.noClock {
		o.Steps = r.tape.Steps[uint32(r.pids[0])]
	}
	for _, w := range r.plan.want {
		t := truth{Rules: w.rules, With: w.with, Named: w.culprit != nil, First: r.times[w.fault].From}
		all, first := r.excess(r.times...)
		if w.lost != nil {
			all = w.lost(r)
			_, first = r.excess(r.times[w.fault])
		}
		if t.Lost = all; first > t.First {
			t.First = first
		}
		if t.Named {
			t.Culprits = w.culprit(r)
		}
		o.Want = append(o.Want, t)
	}
	return o
}
