package tick

import (
	"strings"
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// Severity grades a chain by the share of the job's wall time that it cost.
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

// ParseSeverity reads a grade, in capitals or not.
func ParseSeverity(name string) (s Severity, ok bool) {
	for s := Low; s <= High; s++ {
		if strings.EqualFold(name, severityNames[s]) {
			return s, true
		}
	}
	return 0, false
}

// ChainStays is for how long after its last slow step a chain is in the ticks.
// One that is missing before has been revised, as more was seen: there is nothing
// to tell.
const ChainStays = 5 * time.Minute

// Over tells whether a chain that is in no tick any more has run its time, and was
// not revised.
func (c *Chain) Over(now time.Time) bool { return now.Sub(c.To) > ChainStays }

// JudgedWithLess begins the last part of a baseline where not all was seen of what the chain's
// rule looks at.
const JudgedWithLess = "; judged with less: "

// Less is what was not seen when the chain was judged, in words; empty: all was seen.
func (c *Chain) Less() string {
	_, less, _ := strings.Cut(c.Baseline, JudgedWithLess)
	return less
}

// Chain is time that a process lost and the one cause of it: an excess over the
// baseline, netted by step, of which Culprits took the parts.
type Chain struct {
	ID       string // the same for the same cause of the same process, window after window
	Rule     string // name of the row in causal.Rules
	Severity Severity
	PID      uint32 // who lost
	TID      uint32 // its thread that lost most
	Op       events.Op
	At       string    // where in the program most of the time of Op was spent, in words; empty: not known
	From, To time.Time // the first and the last slow step

	// Lost is what the cause cost, in ns of wall time, between LostMin and
	// LostMax where only an interval is known. Window is the time looked at,
	// Excess all time beyond the baseline in it, whatever its cause.
	Lost, LostMin, LostMax time.Duration
	Window, Excess         time.Duration
	Steps, Slow            int // steps in the window; of these, those that the cause lengthened
	// Confidence is the share of the excess of the slow steps that the cause
	// explains, 0 to 1.
	Confidence float64
	Baseline   string // in words: what is normal, and where that was learnt

	// StepP50 and StepP99 are quantiles of the steps; Without is what StepP99
	// would have been without the cause. OpP99 and OpP50 are those of Op.
	StepP50, StepP99, Without time.Duration
	OpP50, OpP99              time.Duration

	// Spread is Lost by time, on multiples of [SpreadStep], from From to To, without
	// the stretches of which a part has left the window. Empty: only the sum is known.
	Spread []Loss

	Culprits []Culprit // the largest share first
	Timeline []Moment  // in order of time
	NotIt    []string  // causes that were looked for and did not grow, in words
}

// Untold are kinds of causes that cannot be told, or not wholly, while a step to spare the
// traced processes is taken.
type Untold struct {
	Step         string    // of govern.Steps
	Without      string    // what is not seen, in words
	Rules        []string  // in the order of causal.Rules
	Since, Until time.Time // Until is zero while the step is taken
}

// SpreadStep is the length of a stretch of [Chain.Spread].
const SpreadStep = 10 * time.Second

// Loss is time that was lost in a stretch.
type Loss struct {
	Start int64 // Unix ns
	Lost  time.Duration
}

// Culprit is who or what took the time.
type Culprit struct {
	Thread  events.Thread // TID 0: no thread, but What
	Own     bool          // of the victim's own process
	Root    Root          // what its share comes down to
	Agent   bool          // ingero itself
	What    string        // "CPU quota", "disk 254:0", "cudaMalloc", ...; beside a thread: what it did
	Cgroup  string        // path, where known
	Cmdline string        // where known
	Where   string        // in words: its container or pod, job and rank, where known
	Parent  string        // "name pid", where known
	Limit   Limit         // that was reached, where known
	Path    string        `json:",omitempty"` // in words: the threads through which the victim waited for it; empty: for itself
	CPUs    []uint16      // on which it ran in the victim's stead
	Stack   uint32        `json:",omitempty"` // with which the victim itself waited for most of Lost, 0: not known, or it waited for Thread
	At      string        // where that was, or where in its program Thread spent most of the time in which it was waited for, in words; empty: not known, or it took a CPU and nobody waited for it
	Lost    time.Duration // its share of the chain's
}

// What of a culprit that is no process of this machine: a peer, or [PeerAt] and its address.
const (
	APeer  = "a peer"
	PeerAt = "peer "
)

// IsPeer says whether the culprit is a peer of which no more than the address is known. Thread, if
// there is one, waited for it.
func (c *Culprit) IsPeer() bool { return c.What == APeer || strings.HasPrefix(c.What, PeerAt) }

// Moment is one line of a chain's timeline: something that was measured.
type Moment struct {
	Time   time.Time
	Source string // "HOST", "CUDA", "SYSTEM"
	Text   string
}

// Breakdown says where the time of a process's threads went: of those that make
// traced calls, from each one's first call on. The parts add up to Elapsed; ns.
type Breakdown struct {
	PID     uint32
	Threads int
	Elapsed uint64

	GPUWait   uint64 // on a CPU or blocked, in calls that wait for the GPU
	CallCPU   uint64 // on a CPU in other calls
	GapCPU    uint64 // on a CPU between calls
	Runnable  uint64 // in calls or between, as the rest
	Throttled uint64
	Blocked   uint64 // in no call that waits for the GPU

	RunnableBy []Share // who had the CPU; the largest first, what is not named left out
	BlockedOn  []Share // likewise
	// Steps are the times from one return of a synchronising call to the next of
	// the same thread, ns; Critical is the time they lost to being runnable,
	// throttled or stopped when the GPU was done: in [CriticalMin, CriticalMax].
	Steps                              int
	StepP50, StepP99                   time.Duration
	Critical, CriticalMin, CriticalMax uint64
	Lengths                            *stats.Sketch // of the steps; nil: not known

	// ByThread are the same times thread by thread, in calls that wait for the GPU, in
	// others and between calls: those that were longest in calls, and the rest as one.
	ByThread []ThreadTime
	// Loop is what the program does again and again; nil: it was not found.
	Loop *Loop
}

// Share is a named part of a [Breakdown].
type Share struct {
	NS     uint64
	Count  uint64         // waits
	Who    events.Thread  // RunnableBy: had the CPU. BlockedOn: woke the thread
	Own    bool           // Who is of the process itself
	Agent  bool           // Who is ingero
	Idle   bool           // RunnableBy: nobody had it, the wake-up was on its way
	ByIRQ  bool           // BlockedOn: an interrupt or a timer woke it
	Reason events.Reason  // BlockedOn
	Call   events.Syscall // BlockedOn
	File   events.FileKind
	Arg    uint64 // BlockedOn: as in events.Wait, of the longest wait
	Dev    uint32
	// At is the place in the code at which the thread blocked, in words, where that is known and no
	// thread of a program ended the wait. Of ReasonGIL it is that at which Who let go, and Across
	// the call that Who had held the lock across. Stack is of the place.
	At     string
	Across events.Op
	Stack  uint32
	// Waker is what Who did during the waits that it ended, where it was
	// accounted for: the thread's own wait, explained by one hop more.
	Waker *WakerShare
	// WakerAt is where in its program the thread at the end of the chain of wakers spent most of
	// the time in which it was waited for, in words; empty: not known.
	WakerAt string
}

// MaxHops is how many wakers a wait is followed through: as far as the kernel gives them accounts
// (MAX_HOPS in bpf/abi.h).
const MaxHops = 4

// WakerShare splits the time that a thread waited for another, by what that did meanwhile; where
// it waited for a third one, by what that did, and so on to the root. The parts add up to at
// most the waits' time; what is missing is not known.
type WakerShare struct {
	Times
	// Root is the thread that most of the parts are of, if it is not the one that ended the
	// wait (TID 0). Through are the threads between the two: each waited for the next one, and
	// the last of them for Root. TID 0: none.
	Root    events.Thread
	Through [MaxHops - 2]events.Thread `json:",omitzero"`
	Reason  events.Reason              // what most of Blocked was on
	Call    events.Syscall
	Dev     uint32
	By      events.Thread // who had the CPU in most of Runnable
	// Hypervisor: it gave the CPU to others in most of Runnable; By is empty.
	Hypervisor bool
}
