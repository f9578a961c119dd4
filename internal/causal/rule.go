package causal

import (
	"ingero/pkg/events"
)

// Needs are the inputs without which a rule is blind.
type Needs uint8

// The inputs.
const (
	NeedWaits Needs = 1 << iota // wait records: sched_switch is traced
	NeedCalls                   // calls with their durations
)

// Rule is one kind of cause.
type Rule struct {
	Name  string
	Doc   string // what it means, in a sentence
	Needs Needs
	// Prior says that the normal amount of a part is zero; nil: never. Otherwise
	// it is learnt from the steps. Parts of one Key are all alike in this.
	Prior func(p *Part) bool
	// Share is the least share of the time looked at that makes a chain, Slow the
	// least number of slow steps unless one loss is so long that it needs no
	// repetition (250 ms).
	Share float64
	Slow  int
	// Word is what was ruled out where the rule found nothing.
	Word string
	// Match says whether a part is of this kind. The first rule that says so has it.
	Match func(p *Part) bool
	// Key tells culprits apart.
	Key func(p *Part) Key
	// Blame names the group of culprits that makes one chain, and what a culprit
	// is or did where its thread's name does not say it.
	Blame func(p *Part) (group, what string)
}

// maxRules is how many rules there is room for in sums by rule.
const maxRules = 16

// Rules are all kinds of causes, in the order in which they are asked. To know
// one more is to add a row.
var Rules = []Rule{
	cpuThrottled,
	stopped,
	ownThreads,
	cpuTaken,
	diskWait,
	driverSlow,
	lockWait,
	callSlow,
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

func always(*Part) bool { return true }

// own says whether the part's culprit is of the victim's process.
func (p *Part) own() bool { return p.Who.TID != 0 && p.Who.PID == p.Victim }
