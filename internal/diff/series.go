package diff

import (
	"ingero/pkg/events"
)

// Part is a part of the time ledger.
type Part uint8

// The parts. Those after All add up to it.
const (
	All       Part = iota // of a step
	GPUWait               // on a CPU or blocked, in calls that wait for the GPU
	GapCPU                // on a CPU between calls
	CallCPU               // on a CPU in other calls
	Runnable              // ready to run, without a CPU
	Throttled             // by a CPU quota
	Blocked               // outside calls that wait for the GPU
	parts
)

var partNames = [parts]string{"step", "gpu_wait", "cpu_between_calls", "cpu_in_calls", "runnable", "throttled", "blocked"}

// String returns the JSON name of a part.
func (p Part) String() string { return partNames[p] }

// Kind is the kind of a [Key].
type Kind uint8

// The kinds. All but KindCount are nanoseconds.
const (
	KindPart  Kind = iota // a part of the ledger
	KindOp                // the time of calls of an operation
	KindCount             // number of its calls
	KindLine              // time of its calls from a place in the program
	KindWait              // waits, by CPU user or reason
)

// Key identifies a compared value. It is comparable.
type Key struct {
	Kind Kind
	Part Part // the part that contains it
	Op   events.Op
	Line string // KindLine: function and file
	// For KindWait: the CPU user, or the thread that ended the wait.
	Who              string
	Own, Agent, Idle bool
	Reason           events.Reason // reason of the wait
	Call             events.Syscall
	Dev              uint32
}

// StepKey is the length of a step.
var StepKey = Key{Kind: KindPart, Part: All}

// Series is a run divided into blocks: the number of steps that ended in each, and the values by
// key.
type Series struct {
	At     []int64 // start of each, Unix ns
	Steps  []float64
	Values map[Key][]float64
}

func newSeries(n int) *Series {
	return &Series{At: make([]int64, n), Steps: make([]float64, n), Values: map[Key][]float64{}}
}

// add adds to a value of a block.
func (s *Series) add(block int, k Key, v float64) {
	s.values(k)[block] += v
}

// values returns the values of a key, by block.
func (s *Series) values(k Key) []float64 {
	x := s.Values[k]
	if x == nil {
		x = make([]float64, len(s.Steps))
		s.Values[k] = x
	}
	return x
}

// within returns the blocks of [from, to).
func (s *Series) within(from, to int64) *Series {
	i, j := 0, len(s.At)
	for i < j && s.At[i] < from {
		i++
	}
	for j > i && s.At[j-1] >= to {
		j--
	}
	out := &Series{At: s.At[i:j], Steps: s.Steps[i:j], Values: make(map[Key][]float64, len(s.Values))}
	for k, v := range s.Values {
		out.Values[k] = v[i:j]
	}
	return out
}

// warmer is the factor by which the error of the mean must shrink before blocks are dropped.
const warmer = 0.7

// warm returns the number of first blocks to drop, at most a quarter: the number that gives the
// smallest error of the mean of the rest (the marginal standard error rule).
func warm(x []float64) int {
	all, best, at := 0.0, 0.0, 0
	const known = 1e-4 // as a share: precise enough
	for d := 0; d <= len(x)/4; d++ {
		mean, sum := 0.0, 0.0
		for _, v := range x[d:] {
			mean += v
		}
		n := float64(len(x) - d)
		mean /= n
		for _, v := range x[d:] {
			sum += (v - mean) * (v - mean)
		}
		e := sum / (n * n)
		if d == 0 {
			if all, best = e, e; e < known*known*mean*mean {
				return 0
			}
		}
		if e < best && e < warmer*all {
			best, at = e, d
		}
	}
	return at
}
