package tick

import (
	"time"

	"ingero/internal/stats"
)

// EngineSteps sums up the steps of one kind that an inference server's engine ended since the last
// tick. A step begins when the thread's last wait for the GPU returns and ends with the next one.
type EngineSteps struct {
	PID, TID uint32 // of the engine's thread
	Kind     EngineStep
	// Graph is the handle of the first graph that the steps launched. An engine has a graph for each
	// batch size. 0: none, unknown, or one of too many.
	Graph uint64
	Count uint64
	// Served counts the requests that had a token computed in such steps, once for each step: of the
	// requests that have ended since the last tick. Over a longer time, Served by Count is the mean
	// number of requests in a step.
	Served uint64
	// Idle is the time in which the engine waited for work before the steps, and Dur has the time of
	// each from then on, in ns, which the other parts add up to. CPU and Runnable include the wait for
	// a scheduler's process that was on a CPU, or waited for one.
	Idle, GPU, CPU, Runnable, Blocked, Unknown time.Duration
	Dur                                        stats.Sketch
}

// Add adds other steps of the same kind.
func (s *EngineSteps) Add(o *EngineSteps) {
	s.Count, s.Served = s.Count+o.Count, s.Served+o.Served
	s.Idle, s.GPU, s.CPU, s.Runnable = s.Idle+o.Idle, s.GPU+o.GPU, s.CPU+o.CPU, s.Runnable+o.Runnable
	s.Blocked, s.Unknown = s.Blocked+o.Blocked, s.Unknown+o.Unknown
	s.Dur.Merge(&o.Dur)
}

// EngineStep is what an engine's step computes.
type EngineStep uint8

// The kinds of steps.
const (
	EngineEither  EngineStep = iota // prompts or tokens: nothing tells them apart
	EngineTokens                    // with a graph: tokens
	EnginePrompts                   // launches without a graph: prompts, or tokens for a batch size that has no graph
	EngineCapture                   // a graph was captured
)

// EngineStepNames are the names of the kinds.
var EngineStepNames = [...]string{"prompts or tokens", "tokens", "prompts", "capture"}

// String returns the kind's name.
func (k EngineStep) String() string { return EngineStepNames[k] }
