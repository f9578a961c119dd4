package tick

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// Loop is what a program does again and again, and what a person calls its steps: of the
// thread that waits for the GPU most, found from the order in which it does so, or from
// the ranges that it names.
type Loop struct {
	TID   uint32
	Op    events.Op // the call that closes a step
	Waits int       // how often a step waits for the GPU
	// Range is the name of the NVTX range that the steps are: the program says so itself.
	// A number that is not the same in each is "#". Empty: the steps were found
	// from the order of the calls.
	Range string
	Steps uint64 // those that were seen whole
	Total time.Duration
	// Lengths are those of the steps; P50 and P99 are of it.
	Lengths  *stats.Sketch
	P50, P99 time.Duration
	Usual    StepTimes  // the median of each part
	Slowest  []LoopStep // the slowest first; few
	Recent   []LoopStep // likewise, of those that ended in this tick
}

// StepTimes is where a step's time went. The parts add up to its length. To add one is to add
// a field, its place in Parts and its row of [StepParts]; to fill it in package loop; and to
// keep it in package store.
type StepTimes struct {
	GPUWait   time.Duration
	CallCPU   time.Duration
	GapCPU    time.Duration
	Runnable  time.Duration
	Throttled time.Duration
	Blocked   time.Duration
	Unknown   time.Duration // of calls whose records are missing
}

// Parts are the times in the order in which they are told.
func (t *StepTimes) Parts() [len(StepParts)]*time.Duration {
	return [...]*time.Duration{&t.GPUWait, &t.CallCPU, &t.GapCPU, &t.Runnable, &t.Throttled, &t.Blocked, &t.Unknown}
}

// StepParts are the parts in the order of [StepTimes.Parts]: their names in JSON and in words.
var StepParts = [...]struct{ Name, Label string }{
	{"gpu_wait", "GPU wait"}, {"cpu_in_calls", "CPU in calls"}, {"cpu_between_calls", "CPU between calls"},
	{"runnable", "waiting for a CPU"}, {"throttled", "throttled"}, {"blocked", "blocked"}, {"unknown", "not known"},
}

// LoopStep is one step of a loop.
type LoopStep struct {
	From, To time.Time
	Times    StepTimes
	Took     []Share // who had the CPU, and what was waited for outside of waits for the GPU: the largest first, few
}

// SlowSteps is how many of the slowest steps are kept.
const SlowSteps = 5

// Slower adds steps to a list of the slowest, which it does not change.
func Slower(list []LoopStep, more ...LoopStep) []LoopStep {
	out := slices.Concat(list, more)
	slices.SortStableFunc(out, func(a, b LoopStep) int {
		return cmp.Or(cmp.Compare(b.Length(), a.Length()), a.From.Compare(b.From))
	})
	return out[:min(len(out), SlowSteps)]
}

// Length is how long the step took.
func (s *LoopStep) Length() time.Duration { return s.To.Sub(s.From) }

// same says whether o is of the same loop.
func (l *Loop) same(o *Loop) bool {
	return l != nil && o != nil && l.TID == o.TID && l.Op == o.Op && l.Range == o.Range && (l.Range != "" || l.Waits == o.Waits)
}

// Plus returns the sum of what two stretches of time have of one loop; of two loops the
// one that went on for longer.
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

// since returns what was added since an earlier state, without its slowest steps; nil for
// nothing.
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
