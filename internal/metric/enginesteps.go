package metric

import (
	"time"

	"ingero/internal/tick"
)

// engineSteps sums up the steps of the engines of inference servers with one engine and model.
type engineSteps struct {
	took   [len(tick.EngineStepNames)]timing
	served uint64
	states [len(engineStates)]time.Duration
}

var engineStates = [...]string{"idle", "gpu", "cpu", "runnable", "blocked", "unknown"}

// engineSteps adds a tick's steps and makes the points of all.
func (m *Meter) engineSteps(t *tick.Tick) {
	for i := range t.EngineSteps {
		x := &t.EngineSteps[i]
		s := m.engine(t, x.PID)
		s.took[x.Kind].sketch.Merge(&x.Dur)
		s.served += x.Served
		for j, d := range [len(engineStates)]time.Duration{x.Idle, x.GPU, x.CPU, x.Runnable, x.Blocked, x.Unknown} {
			s.states[j] += d
		}
	}
	for _, k := range sortedKeys(m.engines.states) {
		s := m.engines.states[k]
		for i, kind := range tick.EngineStepNames {
			if dist := s.took[i].distribution(); dist != nil {
				m.point(EngineStep, Point{Labels: []string{kind, k.engine, k.model}, Dist: dist})
			}
		}
		if s.served > 0 {
			m.set(EngineRequests, float64(s.served), k.engine, k.model)
		}
		for i, state := range engineStates {
			if s.states[i] > 0 {
				m.set(EngineTime, s.states[i].Seconds(), state, k.engine, k.model)
			}
		}
	}
}

// engine returns the sums of an engine. Beyond the limit, engines are counted as other.
func (m *Meter) engine(t *tick.Tick, pid uint32) *engineSteps {
	e := m.served.engine(t, pid)
	s, own := m.engines.use(modelKey{text(e.Name), text(e.Model)}, m.time)
	if !own {
		m.over[EngineStep]++
	}
	return s
}
