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
	NeedWaits Needs = 1 << iota // wait records: sched_switch is traced
	NeedCalls                   // calls with their durations
	NeedHost                    // what happened on the host
	NeedState                   // what follows from all calls of a process: package track
	NeedGPUs                    // how the GPUs are
	NeedXids                    // the faults that they report
)

// Rule is one kind of cause: what it means, which parts of steps are its own, and how it is
// found in a [Window]. Attribution, baselines, netting, judging and telling are the engine's.
type Rule struct {
	Name  string
	Doc   string // the meaning, in a sentence
	Needs Needs
	// The inputs that the agent may shed to spare the traced processes. Without one in Sees the
	// rule misses causes. Without one in Rests it would find false ones, and abstains. Without
	// one in Dims it finds the same and says less.
	Sees, Rests, Dims govern.Sights
	// Problems are the numbers of the published problems that the rule answers: "2", "6b".
	Problems []string
	// Share is the smallest share of the window that a finding may have cost.
	Share float64
	// Slow is the smallest number of slow steps. A loss of 250 ms needs none.
	Slow int
	// Crowd says that many causes of the rule are told as one: they have one remedy.
	Crowd bool
	// Vague is the error of the loss, as a share, that the incident lab found for this rule;
	// 0: the usual one.
	Vague float64

	// Claims are the parts of steps that the rule explains; nil: none.
	Claims *Claims

	// Find returns the rule's findings in a window. The engine calls it once a tick, and
	// withdraws a finding that Find no longer returns while the window still holds all of its
	// steps. nil: the findings are what the claimed parts cost. [claimed] and [takesOver] make
	// the usual functions.
	Find func(w *Window) []Finding

	// Instead names rules that describe the same loss less exactly. The engine drops their
	// findings where this rule has one of the same process at the same time.
	Instead []string
}

// Claims are the parts of steps that belong to a rule: its attribution. Where several rules
// claim a part, the first in the table gets it.
type Claims struct {
	// Part reports whether the rule claims a part.
	Part func(p *Part) bool
	// Baseline returns how the baseline of a part is found; nil: it is learned. It is the same
	// for all parts of one Key.
	Baseline func(p *Part) baseline
	// MaxBaseline bounds the learned baseline of one call's own time, ns; 0: no bound.
	MaxBaseline int64
	// Key tells the culprits of a victim apart.
	Key func(p *Part) Key
	// Blame returns the group of a culprit, where one group makes one finding, and what the
	// culprit is or did, where its thread's name does not say it.
	Blame func(p *Part) (group, what string)
	// Started says that a part that waits for a thread of the job may wait until that is started: one
	// in a process's first steps says nothing.
	Started bool
	// Word is how findings of other rules call these parts where they had no excess; "": not
	// at all.
	Word string
}

// Part is a piece of a step: waits of one kind and culprit, or the own time of
// one operation.
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
	Op     events.Op // outermost call that it was in, 0: between calls
	Size   uint8     // State 0: as in ledger.OpTime
	// Critical marks waits of the closing call after the GPU was done.
	Critical bool
	// Via is the thread of the process's own, or of another, that the victim waited for, at the
	// end of the chain of wakers; the part is then what that thread did meanwhile. TID 0: none.
	Via events.Thread
	// Whose and ViaWhose say how Who and Via belong to the victim.
	Whose, ViaWhose tick.Whose
	// Waker is the thread that ended the victim's wait, where it is known what it did.
	Waker events.Thread
	// Through are the threads between Waker and the thread at the end of the chain: each waited
	// for the next one. TID 0: none.
	Through [tick.MaxHops - 2]events.Thread
	// Unknown is how much of NS it is not known of what the thread at the end of the chain did, ns.
	Unknown int64
	// Busy says that the thread that it waited for is known to have been on a CPU for
	// most of what is left of the part.
	Busy bool
	// Root is what the victim itself blocked on; that of Via's, where there is one.
	Root        events.Reason
	First, Last int64  // Unix ns
	Stack       uint32 // with which the victim blocked, 0: not known, or it waited for a thread
}

// Key tells culprits of one rule and one victim apart.
type Key struct {
	ID     uint32 // process or thread
	Dev    uint32
	Op     events.Op
	Reason events.Reason
	Did    tick.Did
	Size   uint8
}

// baseline is how the baseline of a part is found.
type baseline uint8

const (
	baselineLearned  baseline = iota // the low quantile of the steps
	baselineLevel                    // the lower level where the steps have two levels, else zero
	baselinePace                     // the lower level where the steps have two levels, else all is normal
	baselineHandOver                 // what is usual, where it is in most steps, else as learned
	baselineMeeting                  // what is usual, however it varies, where it is in most steps, else as learned
	baselineLittle                   // what is usual, where it is in most steps and a small share of them, else zero
	baselineHabit                    // what is usual, where it comes again and again, else as learned
	baselineZero                     // zero
)

func zeroBaseline(*Part) baseline { return baselineZero }

// own says whether the part's culprit is of the victim's process.
func (p *Part) own() bool { return p.Who.PID != 0 && p.Who.PID == p.Victim }
