package tick

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// Loop is what a program repeats: its steps, as people call them. The steps belong to the thread
// that waits for the GPU most. They are found from the order of its waits, or from the program's
// ranges.
type Loop struct {
	TID   uint32
	Op    events.Op // the call that closes a step
	Waits int       // number of GPU waits in a step
	// Range is the name of the NVTX range that the program marks its steps with. Numbers that
	// change are "#". Empty: the steps were found from the order of the calls.
	Range string
	Steps uint64 // completely observed steps
	Total time.Duration
	// Lengths has the lengths of the steps; P50 and P99 are its quantiles.
	Lengths  *stats.Sketch
	P50, P99 time.Duration
	Usual    StepTimes  // the median of each part
	Slowest  []LoopStep // the slowest first; few
	Recent   []LoopStep // the slowest of this tick, slowest first
}

// StepTimes divides a step's time. The parts add up to its length. To add a part, add a field, its
// place in Parts and its row of [StepParts], fill it in package loop, and keep it in package store.
type StepTimes struct {
	GPUWait   time.Duration
	CallCPU   time.Duration
	GapCPU    time.Duration
	Runnable  time.Duration
	Throttled time.Duration
	Blocked   time.Duration
	Unknown   time.Duration // calls with missing records
}

// Parts returns the times in display order.
func (t *StepTimes) Parts() [len(StepParts)]*time.Duration {
	return [...]*time.Duration{&t.GPUWait, &t.CallCPU, &t.GapCPU, &t.Runnable, &t.Throttled, &t.Blocked, &t.Unknown}
}

// StepParts has the names of the parts in JSON and in words, in the order of [StepTimes.Parts].
var StepParts = [...]struct{ Name, Label string }{
	{"gpu_wait", "GPU wait"}, {"cpu_in_calls", "CPU in calls"}, {"cpu_between_calls", "CPU between calls"},
	{"runnable", "waiting for a CPU"}, {"throttled", "throttled"}, {"blocked", "blocked"}, {"unknown", "not known"},
}

// LoopStep is one step of a loop.
type LoopStep struct {
	From, To time.Time
	Times    StepTimes
	Took     []Share // CPU users, and waits outside of GPU waits: largest first, bounded
}

// SlowSteps is the number of slowest steps that are kept.
const SlowSteps = 5

// Slower returns list with more steps, the slowest first. It does not modify list.
func Slower(list []LoopStep, more ...LoopStep) []LoopStep {
	out := slices.Concat(list, more)
	slices.SortStableFunc(out, func(a, b LoopStep) int {
		return cmp.Or(cmp.Compare(b.Length(), a.Length()), a.From.Compare(b.From))
	})
	return out[:min(len(out), SlowSteps)]
}

// Length returns the duration of the step.
func (s *LoopStep) Length() time.Duration { return s.To.Sub(s.From) }

// same reports whether o is the same loop.
func (l *Loop) same(o *Loop) bool {
	return l != nil && o != nil && l.TID == o.TID && l.Op == o.Op && l.Range == o.Range && (l.Range != "" || l.Waits == o.Waits)
}

// Plus returns the sum of two times of one loop. For different loops it returns the one with the
// longer total.
func (l *Loop) Plus(o *Loop) *Loop {
	switch {
	case !l.same(o) && (l == nil || o != nil && o.Total > l.Total):
		return o
	case !l.same(o):
		return l
	}
	sum := *l
	if o.Steps > l.Steps {
		sum.Usual = o.Usual
	}
	sum.Steps, sum.Total = l.Steps+o.Steps, l.Total+o.Total
	sum.Lengths = l.Lengths.Clone()
	sum.Lengths.Merge(o.Lengths)
	sum.Slowest, sum.Recent = Slower(l.Slowest, o.Slowest...), nil
	sum.quantiles()
	return &sum
}

// since returns the growth since an earlier state, without its slowest steps; nil for none.
func (l *Loop) since(was *Loop) *Loop {
	if l == nil {
		return nil
	}
	left := *l
	left.Slowest, left.Recent = nil, nil
	if l.same(was) && l.Steps >= was.Steps {
		left.Steps, left.Total, left.Lengths = l.Steps-was.Steps, l.Total-was.Total, l.Lengths.Clone()
		left.Lengths.Sub(was.Lengths)
	}
	if left.Steps == 0 {
		return nil
	}
	left.quantiles()
	return &left
}

func (l *Loop) quantiles() {
	l.P50, l.P99 = time.Duration(l.Lengths.Quantile(0.5)), time.Duration(l.Lengths.Quantile(0.99))
}
