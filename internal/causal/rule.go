package causal

import (
	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Needs are the inputs without which a rule is blind.
type Needs uint8

// The inputs.
const (
	NeedWaits    Needs = 1 << iota // wait records: sched_switch is traced
	NeedCalls                      // calls with their durations
	NeedHost                       // host events
	NeedState                      // state derived from a process's calls: package track
	NeedGPUs                       // state of the GPUs
	NeedXids                       // GPU faults (Xid)
	NeedRequests                   // requests to inference servers
)

// Rule is one kind of cause: what it means, which parts of steps are its own, and how it is found
// in a [Window]. Attribution, baselines, netting, judging and reporting are the engine's.
type Rule struct {
	Name  string
	Doc   string // meaning, in one sentence
	Needs Needs
	// Inputs that the agent may shed to limit its overhead. Without one in Sees the rule
	// misses causes. Without one in Rests it would find false ones, and abstains. Without one in
	// Dims it finds the same with less detail.
	Sees, Rests, Dims govern.Facts
	// Problems are the numbers of the published problems that the rule answers: "2", "6b".
	Problems []string
	// Share is the smallest lost share of the window for a finding.
	Share float64
	// Slow is the smallest number of slow steps. A loss of 250 ms needs none.
	Slow int
	// Crowd merges many causes of the rule into one: they have one remedy.
	Crowd bool
	// Vague is the relative error of the loss that the incident lab found for this rule; 0: the
	// usual error.
	Vague float64

	// Claims are the parts of steps that the rule explains; nil: none.
	Claims *Claims

	// Find returns the rule's findings in a window. The engine calls it once a tick, and withdraws
	// a finding that Find no longer returns while the window still holds all of its steps. nil: the
	// findings are the cost of the claimed parts. [claimed] and [takeOver] make the usual
	// functions.
	Find func(w *Window) []Finding

	// Instead names rules that describe the same loss less exactly. The engine drops their findings
	// if this rule has one for the same process at the same time.
	Instead []string
}

// Claims are the parts of steps that belong to a rule. If several rules claim a part, the first in
// the table gets it.
type Claims struct {
	// Part reports whether the rule claims a part.
	Part func(p *Part) bool
	// Baseline returns the kind of a part's baseline; nil: learned. All parts with the same Key
	// have the same kind.
	Baseline func(p *Part) baseline
	// MaxBaseline bounds the learned baseline of one call's own time, ns; 0: no bound.
	MaxBaseline int64
	// Key distinguishes the culprits of a victim.
	Key func(p *Part) Key
	// Blame returns the group of a culprit, where each group makes one finding, and a description
	// of the culprit if its thread's name is not enough.
	Blame func(p *Part) (group, what string)
	// Started marks waits for a thread of the job that may still be starting. They do not count in
	// a process's first steps.
	Started bool
	// Word names these parts in other rules' findings when they had no excess; "": not named.
	Word string
}

// Part is a piece of a step: waits of one kind and culprit, or the own time of one operation.
type Part struct {
	Victim uint32 // process
	NS     int64
	State  events.WaitState // 0: the own time of Op
	Reason events.Reason
	Flags  events.WaitFlags
	Who    events.Thread
	Call   events.Syscall
	Dev    uint32
	CPU    uint16
	Op     events.Op // outermost call around it, 0: between calls
	Size   uint8     // State 0: as in ledger.OpTime
	// Critical marks waits of the closing call after the GPU finished.
	Critical bool
	// Via is the thread that the victim waited for, of any process, at the end of the chain of
	// wakers. The part is what that thread did meanwhile. TID 0: none.
	Via events.Thread
	// Relation and ViaRelation are the relations of Who and Via to the victim.
	Relation, ViaRelation tick.Relation
	// Server reports that the victim waited for a worker that answers requests: the victim sent one just
	// before, or the worker had TCP clients by the last tick.
	Server bool
	// Serves reports that the victim, which is no rank, had clients by the last tick.
	Serves bool
	// Waker is the thread that ended the victim's wait, if its activity is known.
	Waker events.Thread
	// Through are the threads between Waker and the thread at the end of the chain: each waited for
	// the next one. TID 0: none.
	Through [tick.MaxHops - 2]events.Thread
	// Unknown is the part of NS in which the last thread's activity is unknown, ns.
	Unknown int64
	// Busy reports that the thread waited for was on a CPU for most of the rest of the part.
	Busy bool
	// Root is the reason of the victim's own wait; ReasonGIL if its waker, a thread of the same
	// process, waited for the GIL.
	Root        events.Reason
	RootCall    events.Syscall // of the victim's own wait
	First, Last int64          // Unix ns
	Stack       uint32         // where the victim blocked, 0: unknown, or it waited for a thread
}

// Key distinguishes culprits of one rule and one victim.
type Key struct {
	ID     uint32 // process or thread
	Dev    uint32
	Op     events.Op
	Reason events.Reason
	Did    tick.Activity
	Root   events.Reason // of the victim's own wait, if it matters
	Size   uint8
}

// baseline is how the baseline of a part is found.
type baseline uint8

const (
	baselineLearned  baseline = iota // the low quantile of the steps
	baselineLevel                    // lower of two levels, else zero
	baselinePace                     // lower of two levels, else all is normal
	baselineHandOver                 // usual value, if in most steps or if it recurs, else as learned
	baselineMeeting                  // usual value, however it varies, if in most steps, else as learned
	baselineLittle                   // usual value, if in most steps and a small share of them, else zero
	baselineHabit                    // usual value, if it recurs, else as learned
	baselineShared                   // mean of the lower of two levels, else the median, or zero: see [Engine.shared]
	baselineZero                     // zero
)

// elseZero reports whether all of a wait counts where the baseline is unknown.
func (b baseline) elseZero() bool {
	return b == baselineLevel || b == baselineLittle || b == baselineShared
}

func zeroBaseline(*Part) baseline { return baselineZero }

// own reports whether the part's culprit is in the victim's process.
func (p *Part) own() bool { return p.Who.PID != 0 && p.Who.PID == p.Victim }
