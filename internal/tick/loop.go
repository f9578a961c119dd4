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
	ID    uint64 `json:"-"` // distinguishes the loops of a process; 0: unknown, as in stored rows
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
	// Others are the other loops of the thread, by ID: a program may repeat something else for a time,
	// and this loop has the longest total. They have no others.
	Others []*Loop `json:",omitempty"`
	// Now is the one of the others that the program has repeated instead for a minute or more; nil: none.
	Now *Loop `json:"-"`
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
	switch {
	case l == nil || o == nil:
		return false
	case l.ID != 0 && o.ID != 0:
		return l.ID == o.ID
	}
	return l.TID == o.TID && l.Op == o.Op && l.Range == o.Range && (l.Range != "" || l.Waits == o.Waits)
}

// All returns a loop and its others, the loop first; of nil, none.
func (l *Loop) All() []*Loop {
	if l == nil {
		return nil
	}
	return append([]*Loop{l}, l.Others...)
}

// mostOthers bounds the other loops of a sum.
const mostOthers = 8

// Plus returns the sum of two times of a process: the sum of each loop, the one with the longest total
// first, and the next ones as its others.
func (l *Loop) Plus(o *Loop) *Loop {
	all := l.All()
	for _, x := range o.All() {
		if at := slices.IndexFunc(all, x.same); at >= 0 {
			all[at] = all[at].plusSame(x)
		} else {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b *Loop) int { return cmp.Compare(b.Total, a.Total) })
	sum := *all[0]
	sum.Others, sum.Now = nil, nil
	for _, x := range all[1:min(len(all), 1+mostOthers)] {
		other := *x
		other.Others = nil
		sum.Others = append(sum.Others, &other)
	}
	return &sum
}

// plusSame returns the sum of two times of one loop.
func (l *Loop) plusSame(o *Loop) *Loop {
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

// since returns the growth since an earlier state, in a time of a process's threads of at most elapsed
// ns, without slow steps and others. If the program repeated something else meanwhile, it is the growth
// of that loop: the one that took most of the time. nil: none grew, or its steps include some from before.
func (l *Loop) since(was *Loop, elapsed uint64) *Loop {
	var most, before *Loop
	var longest time.Duration
	earlier := was.All()
	for i, x := range l.All() {
		old := &Loop{}
		if at := slices.IndexFunc(earlier, x.same); at >= 0 && earlier[at].Steps <= x.Steps {
			old = earlier[at]
		} else if len(earlier) > 0 && uint64(x.Total) > elapsed {
			continue
		}
		if more := x.Total - old.Total; x.Steps > old.Steps && (most == nil || more > longest) {
			most, before, longest = x, old, more
		}
		if i == 0 && most != nil && x.Range != "" { // named ranges may contain each other
			break
		}
	}
	if most == nil {
		return nil
	}
	left := *most
	left.Slowest, left.Recent, left.Others, left.Now = nil, nil, nil, nil
	left.Steps, left.Total = most.Steps-before.Steps, longest
	if before.Lengths != nil {
		left.Lengths = most.Lengths.Clone()
		left.Lengths.Sub(before.Lengths)
	}
	left.quantiles()
	return &left
}

func (l *Loop) quantiles() {
	l.P50, l.P99 = time.Duration(l.Lengths.Quantile(0.5)), time.Duration(l.Lengths.Quantile(0.99))
}
