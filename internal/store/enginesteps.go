package store

import (
	"time"

	"ingero/internal/tick"
)

// engineSpan is the time that a row of engine_steps sums up.
const engineSpan = 10 * time.Second

var sqlEngineSteps = `REPLACE INTO engine_steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// engineKey identifies the steps that a row sums up.
type engineKey struct {
	pid, tid uint32
	kind     tick.EngineStep
	graph    uint64
}

// engineRow is a row that is not in the file yet.
type engineRow struct {
	from, to int64
	tick.EngineSteps
}

// engineSteps sums up the steps of inference servers' engines until they are written.
type engineSteps struct {
	from time.Time // of sums
	sums map[engineKey]*tick.EngineSteps
	due  []engineRow // bounded by maxStates
}

// add adds a tick's steps, and queues the sums once they are of engineSpan.
func (e *engineSteps) add(t *tick.Tick) {
	for i := range t.EngineSteps {
		if len(e.sums) == 0 {
			e.from, e.sums = t.Time.Add(-t.Window), map[engineKey]*tick.EngineSteps{}
		}
		x := &t.EngineSteps[i]
		k := engineKey{x.PID, x.TID, x.Kind, x.Graph}
		s := e.sums[k]
		if s == nil {
			s = &tick.EngineSteps{PID: x.PID, TID: x.TID, Kind: x.Kind, Graph: x.Graph}
			e.sums[k] = s
		}
		s.Add(x)
	}
	if len(e.sums) == 0 || t.Time.Sub(e.from) < engineSpan && !t.Final {
		return
	}
	for _, s := range e.sums {
		if len(e.due) < maxStates {
			e.due = append(e.due, engineRow{e.from.UnixNano(), t.Time.UnixNano(), *s})
		}
	}
	e.sums = nil
}

// engines writes the queued rows.
func (v *saving) engines() error {
	for i := range v.steps.due {
		x := &v.steps.due[i]
		lengths, err := x.Dur.MarshalBinary()
		if err != nil {
			return err
		}
		if err := v.exec(&sqlEngineSteps, v.id, x.from, x.to, x.PID, x.TID, x.Kind.String(), int64(x.Graph), int64(x.Count), int64(x.Served),
			int64(x.Idle), int64(x.GPU), int64(x.CPU), int64(x.Runnable), int64(x.Blocked), int64(x.Unknown), lengths); err != nil {
			return err
		}
	}
	v.done = append(v.done, func() { v.steps.due = v.steps.due[:0] })
	return nil
}
