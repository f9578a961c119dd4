package store

import (
	"fmt"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// loopJSON is a loop in an account's detail.
type loopJSON struct {
	TID     uint32     `json:"tid"`
	Op      events.Op  `json:"op"`
	Waits   int        `json:"waits"`
	Range   string     `json:"nvtx_range,omitempty"`
	Steps   uint64     `json:"steps"`
	Total   int64      `json:"total_ns"`
	Lengths []byte     `json:"lengths"`
	Usual   stepJSON   `json:"usual"`
	Slowest []slowJSON `json:"slowest,omitempty"`
}

// stepJSON is tick.StepTimes.
type stepJSON struct {
	GPUWait   time.Duration `json:"gpu_wait_ns,omitempty"`
	CallCPU   time.Duration `json:"call_cpu_ns,omitempty"`
	GapCPU    time.Duration `json:"gap_cpu_ns,omitempty"`
	Runnable  time.Duration `json:"runnable_ns,omitempty"`
	Throttled time.Duration `json:"throttled_ns,omitempty"`
	Blocked   time.Duration `json:"blocked_ns,omitempty"`
	Unknown   time.Duration `json:"unknown_ns,omitempty"`
}

type slowJSON struct {
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`
	stepJSON
	Took []shareJSON `json:"took,omitempty"`
}

// loopOf returns a loop's JSON with the slowest steps of the row's period.
func loopOf(l *tick.Loop, slowest []tick.LoopStep) (*loopJSON, error) {
	if l == nil {
		return nil, nil
	}
	lengths, err := l.Lengths.MarshalBinary()
	if err != nil {
		return nil, err
	}
	j := &loopJSON{TID: l.TID, Op: l.Op, Waits: l.Waits, Range: l.Range, Steps: l.Steps, Total: int64(l.Total), Lengths: lengths, Usual: stepJSON(l.Usual)}
	for i := range slowest {
		j.Slowest = append(j.Slowest, slowOf(&slowest[i]))
	}
	return j, nil
}

func (j *loopJSON) loop() (*tick.Loop, error) {
	if j == nil {
		return nil, nil
	}
	l := &tick.Loop{TID: j.TID, Op: j.Op, Waits: j.Waits, Range: j.Range, Steps: j.Steps, Total: time.Duration(j.Total), Usual: tick.StepTimes(j.Usual), Lengths: &stats.Sketch{}}
	if err := l.Lengths.UnmarshalBinary(j.Lengths); err != nil {
		return nil, fmt.Errorf("steps of thread %d: %w", j.TID, err)
	}
	l.P50, l.P99 = time.Duration(l.Lengths.Quantile(0.5)), time.Duration(l.Lengths.Quantile(0.99))
	for i := range j.Slowest {
		l.Slowest = append(l.Slowest, j.Slowest[i].step())
	}
	return l, nil
}

func slowOf(s *tick.LoopStep) slowJSON {
	return slowJSON{s.From.UnixNano(), s.To.UnixNano(), stepJSON(s.Times), sharesJSON(s.Took)}
}

func (s *slowJSON) step() tick.LoopStep {
	return tick.LoopStep{From: time.Unix(0, s.From), To: time.Unix(0, s.To), Times: tick.StepTimes(s.stepJSON), Took: sharesOf(s.Took)}
}

func openJSON(s *tick.LoopStep) *slowJSON {
	if s == nil {
		return nil
	}
	return new(slowOf(s))
}
