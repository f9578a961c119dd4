package causal

import (
	"ingero/internal/govern"
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
	Doc   string // what it means, in a sentence
	Needs Needs
	// Sees is what causes of this kind are told by that may be left out to spare the traced
	// processes: some are not told without it. Without what it Rests on it would find what
	// is not there, and abstains. Without what it Dims for, it says less.
	Sees, Rests, Dims govern.Sights
	// Problems are those of the published list that it answers: "2", "6b".
	Problems []string
	// Share is the least share of the time looked at that makes a chain, Slow the
	// least number of slow steps unless one loss is so long that it needs no
	// repetition (250 ms).
	Share float64
	Slow  int
	// Vague is how far off, as a share, what is said to be lost is taken to be at least,
	// where that is more than usual: as the incident lab found it.
	Vague float64

	// Claims are the parts of steps that it explains; nil: none.
	Claims *Claims

	// Find returns what it finds in a window; nil: what its claimed parts cost. It is asked at
	// each tick: what it no longer finds, while all that it rests on is still in the window, is
	// withdrawn. [claimed], [takesOver] and others make such functions.
	Find func(w *Window) []Finding

	// Instead names rules whose findings say worse what a finding of this one says, of the
	// same process at the same time: they are left out.
	Instead []string
}

// Claims are the parts of steps that belong to a rule. The first rule in the table that
// claims a part has it.
type Claims struct {
	// Part says whether a part is the rule's.
	Part func(p *Part) bool
	// Baseline says how much of a part is normal; nil: it is learned. Parts of one Key are all
	// alike in this.
	Baseline func(p *Part) baseline
	// MaxBaseline is the most that one call normally takes, ns, whatever its others took: of
	// own time alone. 0: what is normal is learned.
	MaxBaseline int64
	// Key tells culprits apart.
	Key func(p *Part) Key
	// Blame names the group of culprits that makes one finding, and what a culprit is or did
	// where its thread's name does not say it.
	Blame func(p *Part) (group, what string)
	// Word is what was ruled out where these parts cost nothing; "": nothing that is said.
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
	// Via is the thread of the process's own, or of another, that the victim
	// waited for; the part is then what that thread did meanwhile. TID 0: none.
	Via events.Thread
	// Busy says that the thread that it waited for is known to have been on a CPU for
	// most of what is left of the part.
	Busy bool
	// Root is what the victim itself blocked on; that of Via's, where there is one.
	Root        events.Reason
	First, Last int64 // Unix ns
}

// Key tells culprits of one rule and one victim apart.
type Key struct {
	ID     uint32 // process or thread
	Dev    uint32
	Op     events.Op
	Reason events.Reason
	Size   uint8
}

// baseline is how much of a part is normal.
type baseline uint8

const (
	baselineLearned baseline = iota // what a tenth of the steps have no more of
	baselineLevel                   // nothing, unless the steps have two levels of it: then the lower one
	baselineZero                    // nothing
	baselines
)

func zeroBaseline(*Part) baseline { return baselineZero }

// own says whether the part's culprit is of the victim's process.
func (p *Part) own() bool { return p.Who.TID != 0 && p.Who.PID == p.Victim }
