package metric

import (
	"time"

	"ingero/internal/tick"
)

// engines sums up the steps of inference servers' engines, by what the server is.
type engines map[modelKey]*engineSteps

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
	for _, k := range sortedKeys(m.engines) {
		s := m.engines[k]
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
	if m.engines == nil {
		m.engines = engines{}
	}
	e := m.served.engine(t, pid)
	k := modelKey{text(e.Name), text(e.Model)}
	if m.engines[k] == nil && len(m.engines) >= mostModels-1 {
		m.over[EngineStep]++
		k = modelKey{Other, Other}
	}
	if m.engines[k] == nil {
		m.engines[k] = &engineSteps{}
	}
	return m.engines[k]
}
