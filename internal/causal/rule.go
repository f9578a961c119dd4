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

// Rule is one kind of cause. It finds it in one of three ways: by parts of steps
// (Match), by what another rule has found (Of), or by what is known of processes and of
// the machine (Find).
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
	// Word is what was ruled out where the rule found nothing.
	Word string

	// Match says whether a part is of this kind. The first rule that says so has it.
	Match func(p *Part) bool
	// Norm says how the normal amount of a part is found; nil: it is learnt. Parts of one
	// Key are all alike in this.
	Norm func(p *Part) norm
	// Most is the most that one call normally takes, ns, whatever its others took: of own
	// time alone. 0: what is normal is learnt.
	Most int64
	// Key tells culprits apart.
	Key func(p *Part) Key
	// Blame names the group of culprits that makes one chain, and what a culprit
	// is or did where its thread's name does not say it.
	Blame func(p *Part) (group, what string)

	// Of names rules of which this one has chains instead, where When says so of one.
	// It may change what the chain says. The first row that says so has the chain.
	Of   []string
	When func(c *tick.Chain, f *Facts) bool

	// Tell says whether a chain that was found by parts is worth telling, and may
	// change what it says; nil: always. It is asked before those that may have it instead.
	Tell func(c *tick.Chain, f *Facts) bool

	// Find returns what it finds at a tick. It is asked at each: what it no longer
	// finds while all that it rests on is still known, is withdrawn.
	Find func(f *Facts) []Finding

	// Instead names rules whose chains say worse what a chain of this one says, of the
	// same process at the same time: they are left out.
	Instead []string
}

// vague is how far off what is said to be lost is taken to be at least.
func (r *Rule) vague() float64 { return max(r.Vague, usuallyVague) }

// maxRules is how many rules there is room for in sums by rule.
const maxRules = 64

// Rules are all kinds of causes, in the order in which they are asked. To know
// one more is to add a row.
var Rules []Rule

// init fills them: rules look at the engine, which looks at the rules.
func init() {
	Rules = []Rule{
		cpuThrottled,
		cpuStolen,
		stopped,
		debugger,
		cpusetShrunk,
		burstOfPrograms,
		ownThreads,
		cpuTaken,
		oomKill,
		memoryLimit,
		memoryReclaim,
		swapIn,
		diskWait,
		gilWait,
		inputWait,
		tcpLoss,
		toolCall,
		peerSlow,
		agentBurst,
		driverSlow,
		lockWait,
		allocSlow,
		freeWaits,
		graphPool,
		callSlow,
		allocStorm,
		copyPageable,
		copiesSmall,
		copyHeavy,
		syncHeavy,
		coldStart,
		memoryLeak,
		graphOOM,
		kvCachePressure,
		gpuFragmentation,
		gpuOOM,
		modelSwap,
		graphRecapture,
		graphUnused,
		graphWarmup,
		cudaAfterFork,
		versionMismatch,
		deviceAssert,
		gpuBehind,
		ncclDead,
		ncclMissing,
		ncclStraggler,
		xidFault,
		gpuThrottled,
		gpuShared,
		gpuSlower,
	}
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

// norm is how the normal amount of a part is found.
type norm uint8

const (
	normLearnt norm = iota // from the steps: most are taken to be normal
	normLevel              // none is, unless the steps have two levels of it: then the lower one
	normNone               // none is
	norms
)

func noneIsNormal(*Part) norm { return normNone }

// own says whether the part's culprit is of the victim's process.
func (p *Part) own() bool { return p.Who.TID != 0 && p.Who.PID == p.Victim }

// ruleNamed returns a rule's number, -1 for none.
func ruleNamed(name string) int {
	for i := range Rules {
		if Rules[i].Name == name {
			return i
		}
	}
	return -1
}
