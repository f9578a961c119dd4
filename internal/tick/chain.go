package tick

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// Severity grades a chain by its share of the job's wall time.
type Severity uint8

// The grades.
const (
	Low Severity = iota + 1
	Medium
	High
)

var severityNames = [...]string{"", "LOW", "MEDIUM", "HIGH"}

// String returns the grade in capitals.
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return "?"
}

// ParseSeverity parses a grade in any case.
func ParseSeverity(name string) (s Severity, ok bool) {
	for s := Low; s <= High; s++ {
		if strings.EqualFold(name, severityNames[s]) {
			return s, true
		}
	}
	return 0, false
}

// ChainStays is how long a chain stays in the ticks after its last slow step. A chain that
// disappears earlier was revised: more data showed no loss.
const ChainStays = 5 * time.Minute

// Over reports whether a chain missing from the ticks has expired, as opposed to revised.
func (c *Chain) Over(now time.Time) bool { return now.Sub(c.To) > ChainStays }

// JudgedWithLess begins the last part of a baseline if some inputs of the chain's rule were shed.
const JudgedWithLess = "; judged with less: "

// Less describes the inputs that were shed when the chain was judged; empty: none.
func (c *Chain) Less() string {
	_, less, _ := strings.Cut(c.Baseline, JudgedWithLess)
	return less
}

// Chain is time that a process lost and its one cause: an excess over the baseline, netted by step,
// taken by Culprits.
type Chain struct {
	ID       string // stable for one cause of one process across windows
	Rule     string // name of the row in causal.Rules
	Severity Severity
	PID      uint32 // the victim
	TID      uint32 // the victim's thread that lost most
	Op       events.Op
	Stack    uint32    `json:",omitempty"` // stack of the calls of Op that cost most, 0: unknown
	At       string    // place of Stack, or that with most of the time of Op, in words; empty: unknown
	From, To time.Time // the first and the last slow step

	// Lost is the cost of the cause in wall time, between LostMin and LostMax if only an interval
	// is known. Window is the observed time, Excess all time beyond the baseline in it, of any
	// cause.
	Lost, LostMin, LostMax time.Duration
	Window, Excess         time.Duration
	Steps, Slow            int // steps in the window; of these, those lengthened by the cause
	// Confidence is the share of the slow steps' excess that the cause explains, 0 to 1.
	Confidence float64
	Baseline   string // in words: the normal case, and how it was learned

	// StepP50 and StepP99 are quantiles of the steps; Without is StepP99 without the cause. OpP99
	// and OpP50 are quantiles of Op.
	StepP50, StepP99, Without time.Duration
	OpP50, OpP99              time.Duration

	// Spread is Lost by time, on multiples of [SpreadStep], from From to To, for bins of which no loss
	// has left the window. Empty: only the sum is known.
	Spread []Loss
	// Replaced is the start of the loss that another chain has instead; zero: none. The other fields still
	// contain that loss.
	Replaced time.Time `json:",omitzero"`

	Culprits []Culprit // the largest share first
	Timeline []Moment  // in order of time
	NotIt    []string  // checked causes that did not grow, in words
}

// SortChains sorts by severity, then by lost time, both descending. Among equally severe chains, that
// of a process comes before those of the processes that waited for it, if it explains most of their loss.
func SortChains(chains []Chain) {
	slices.SortFunc(chains, func(a, b Chain) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.ID, b.ID))
	})
	for range chains { // bounds the passes: processes may wait in a circle
		if !rootsFirst(chains) {
			return
		}
	}
}

// rootsFirst moves each chain before the first one that it explains, and reports whether any moved.
func rootsFirst(chains []Chain) (moved bool) {
	for i := range chains {
		for j := range i {
			if chains[i].explains(&chains[j]) {
				root := chains[i]
				copy(chains[j+1:i+1], chains[j:i])
				chains[j], moved = root, true
				break
			}
		}
	}
	return moved
}

// explains reports whether a chain of one process is a reason for a chain of another that waited for it.
func (c *Chain) explains(other *Chain) bool {
	return c.Severity == other.Severity && c.PID != other.PID && 2*c.Lost >= other.Lost && other.waitedFor(c.PID) && !c.waitedFor(other.PID) &&
		!c.From.After(other.To) && !other.From.After(c.To)
}

// WaitRules are the rules whose culprit is a process that the victim waited for. Culprits of other
// rules used a resource.
var WaitRules = []string{"frontend-slow", "input-wait", "lock-wait", "nccl-dead", "nccl-missing", "nccl-straggler", "peer-slow", "scheduler-cpu",
	"tcp-loss", "tool-call"}

// waitedFor reports whether the victim waited for a process, and that is the first culprit.
func (c *Chain) waitedFor(pid uint32) bool {
	return len(c.Culprits) > 0 && c.Culprits[0].Thread.PID == pid && slices.Contains(WaitRules, c.Rule)
}

// BlindSpot are kinds of causes that cannot be fully reported while a shedding level is active.
type BlindSpot struct {
	Step         string    // level of govern.Steps
	Without      string    // missing inputs, in words
	Rules        []string  // in the order of causal.Rules
	Since, Until time.Time // Until is zero while the level is active
}

// SpreadStep is the length of a bin of [Chain.Spread].
const SpreadStep = 10 * time.Second

// Loss is the lost time of a bin.
type Loss struct {
	Start int64 // Unix ns
	Lost  time.Duration
}

// MaxCPUs bounds the CPUs of a [Culprit]. If there are as many, there may be more.
const MaxCPUs = 8

// Culprit is the thread or thing that took the time.
type Culprit struct {
	Thread  events.Thread // TID 0: no thread, but What
	Own     bool          // of the victim's own process
	Root    Root          // root of its share
	Agent   bool          // ingero itself
	What    string        // "CPU quota", "disk 254:0", "cudaMalloc", ...; with a thread: what it did
	Cgroup  string        // path, if known
	Cmdline string        // if known
	Where   string        // in words: its container or pod, job and rank, if known
	Parent  string        // "name pid", if known
	Limit   Limit         // the limit that was hit, if known
	GPU     string        `json:",omitempty"` // the culprit, if it is a GPU that became slower: the number that nvidia-smi gives it, or its UUID; empty also if unknown
	Sharers []Sharer      `json:",omitempty"` // untraced processes that may use that GPU, the latest start first; at most [MaxSharers]
	Path    string        `json:",omitempty"` // in words: the threads through which the victim waited for the culprit; empty: direct wait
	CPUs    []uint16      // CPUs on which it ran instead of the victim, at most MaxCPUs
	Stack   uint32        `json:",omitempty"` // where the victim waited for most of Lost, 0: unknown
	At      string        // where Thread spent most of the waited time, in words; without a thread to wait for, the place of Stack; empty: unknown, or it took a CPU and was not waited for
	Waited  string        `json:",omitempty"` // place of Stack, in words, if the victim waited for Thread and At is unknown
	Lost    time.Duration // share of the chain's loss
}

// MaxSharers bounds the sharers of a [Culprit]. If there are as many, there may be more.
const MaxSharers = 8

// Sharer is a process that uses CUDA, has a GPU's device file open and is not traced. Whether it computes on the GPU
// is unknown: by default, CUDA opens the files of all GPUs.
type Sharer struct {
	PID     uint32
	Comm    string
	Cmdline string    // if known
	Where   string    // in words: its container or pod, job and rank, if known
	Started time.Time // zero: unknown
}

// Values of What for a culprit on another machine: APeer, or [PeerAt] and its address.
const (
	APeer  = "a peer"
	PeerAt = "peer "
)

// ForMemory ends the value of What if the job waited in a page fault or for its memory map, and ForCall if in a
// system call of another kind. ForOutput ends it if the job waited to write to a pipe, socket or queue,
// and ForReply if it waited for a process that it had sent a request.
const (
	ForMemory = "in a page fault, or to change its memory map"
	ForCall   = "in a system call until it acted"
	ForOutput = "to write to it"
	ForReply  = "for its reply"
)

// ChildEnd begins the value of What if the job waited for the end of a program that it started.
const ChildEnd = "the job waited for its end"

// SwappedKV begins the value of What if blocks of a server's KV cache were copied to the GPU and back.
const SwappedKV = "KV blocks swapped: "

// IsPeer reports whether the culprit is a peer known only by its address. Thread, if set, waited
// for it.
func (c *Culprit) IsPeer() bool { return c.What == APeer || strings.HasPrefix(c.What, PeerAt) }

// Moment is one measured event in a chain's timeline.
type Moment struct {
	Time   time.Time
	Source string // "HOST", "CUDA", "SYSTEM"
	Text   string
}

// Breakdown divides the time of a process's threads that make traced calls, from each thread's
// first call on. The parts add up to Elapsed; ns.
type Breakdown struct {
	PID     uint32
	Threads int
	Elapsed uint64

	GPUWait   uint64 // on a CPU or blocked, in calls that wait for the GPU
	CallCPU   uint64 // on a CPU in other calls
	GapCPU    uint64 // on a CPU between calls
	Runnable  uint64 // in calls or between, like the following
	Throttled uint64
	Blocked   uint64 // outside calls that wait for the GPU

	RunnableBy []Share // by the thread that had the CPU; largest first, unnamed time left out
	BlockedOn  []Share // likewise
	// Code has parts of GapCPU by the place in the code, most time first, as estimated from samples of
	// times between two calls of [events.SampledGap] and more.
	Code []CodeTime `json:",omitempty"`
	// Steps are the times from one return of a synchronizing call to the next of the same thread,
	// ns; Critical is the time they lost to being runnable, throttled or stopped after the GPU
	// finished: in [CriticalMin, CriticalMax].
	Steps                              int
	StepP50, StepP99                   time.Duration
	Critical, CriticalMin, CriticalMax uint64
	Lengths                            *stats.Sketch // of the steps; nil: unknown

	// ByThread has the same times by thread, in calls that wait for the GPU, in other calls and
	// between calls: the threads with the longest time in calls, and one entry for the rest.
	ByThread []ThreadTime
	// Loop is what the program repeats; nil: not found.
	Loop *Loop
	// Open is the unfinished step of the thread with the most steps, if it is longer than each step before
	// and lasts for seconds, with its waits so far; nil: none.
	Open *LoopStep `json:",omitempty"`
}

// CodeTime is the CPU time of a place in the code.
type CodeTime struct {
	At string // in words
	NS uint64
}

// Share is a named part of a [Breakdown].
type Share struct {
	NS     uint64
	Count  uint64         // waits
	Who    events.Thread  // RunnableBy: had the CPU. BlockedOn: woke the thread
	Own    bool           // Who is in the process itself
	Agent  bool           // Who is ingero
	Idle   bool           // RunnableBy: the CPU was idle, the wake-up was on its way
	ByIRQ  bool           // BlockedOn: an interrupt or a timer woke it
	Reason events.Reason  // BlockedOn
	Call   events.Syscall // BlockedOn
	File   events.FileKind
	Arg    uint64 // BlockedOn: as in events.Wait, of the longest wait
	Dev    uint32
	// At is the place in the code where the thread blocked, in words, if known and no thread of a
	// program ended the wait. For ReasonGIL it is the place where Who released the lock, and Across
	// is the call during which Who held it. Stack is the stack of the place.
	At     string
	Across events.Op
	Stack  uint32
	// Waker is what Who did during the waits that it ended, if it had an account: one more hop of
	// explanation.
	Waker *WakerShare
	// WakerAt is where the thread at the end of the chain of wakers spent most of the waited time,
	// in words; empty: unknown.
	WakerAt string
}

// MaxHops is the number of wakers through which a wait is followed. The kernel gives accounts up to
// this hop (MAX_HOPS in bpf/abi.h).
const MaxHops = 4

// WakerShare splits the time that a thread waited for another by what that one did meanwhile. If
// that one waited for a third, the third counts, and so on to the root. The parts add up to at most
// the waits' time; the rest is unknown.
type WakerShare struct {
	Times
	// Root is the thread with most of the time, if it is not the one that ended the wait (TID 0).
	// Through are the threads between the two: each waited for the next one, and the last of them
	// for Root. TID 0: none.
	Root    events.Thread
	Through [MaxHops - 2]events.Thread `json:",omitzero"`
	Reason  events.Reason              // reason of most of Blocked; ReasonFault: with I/O
	Call    events.Syscall
	Dev     uint32
	By      events.Thread // of the process that had the CPU in most of Runnable
	// Hypervisor marks that the hypervisor took the CPU in most of Runnable; By is empty.
	Hypervisor bool
}
