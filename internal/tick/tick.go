package tick

import (
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// Batch is what a source delivers at one poll. Its slices belong to the source
// and are valid until the next poll.
type Batch struct {
	Calls []events.Call
	// Waits are those of the threads that made the calls, and of threads that
	// woke them. Of one thread, all waits inside a call or before it, up to its
	// return, are in this batch or an earlier one than the call.
	Waits []events.Wait
	// Ended are the last accounts of threads that have ended, or whose process
	// runs another program now.
	Ended []Thread
	// Procs are steps of processes' lives: the first ones in this batch or an earlier one
	// than the calls that follow them, an exit in this one or a later one than the last calls.
	Procs []ProcEvent
	// Ranges are calls of NVTX, of one thread in the order in which it made them. Those of
	// its waits that ended before such a call are in this batch or an earlier one.
	Ranges []Range
	// Texts are strings that calls were given, each before its call.
	Texts []events.Text
	// Functions are names of GPU functions that were learnt, each before the first
	// launch that it is the name of, unless that had come before it could be known.
	Functions []events.Function
	// PyCodes are what the kernel said of Python code objects, for package python, since
	// the last stack.
	PyCodes [][]byte
	// RawStacks are addresses of stacks that were met for the first time, each before the
	// first call that has it. Stacks are the same with names, some time later: what
	// sinks get.
	RawStacks []RawStack
	Stacks    []events.Stack
}

// RawStack is a stack as it was taken. Its frames are addresses, innermost first.
type RawStack struct {
	Time    int64 // Unix nanoseconds
	ID      uint32
	PID     uint32
	TID     uint32
	PyEpoch uint32 // of the process's Python interpreter
	PyEnd   uint32 // how far the walk through Python's frames came
	End     uint8  // why there are no more native ones: unwind.End
	IPs     []uint64
	Py      []PyFrame
	PyCodes [][]byte // what the kernel said before of code objects, not of this stack alone
}

// PyFrame is a Python frame as it was taken.
type PyFrame struct {
	Code  uint64 // address of the code object
	Mark  uint32 // tells the object from others at its address
	Instr int32  // bytes from the first instruction
}

// ProcEvent is one step in a process's life, never thinned and never dropped.
type ProcEvent struct {
	Time int64 // Unix nanoseconds
	Kind ProcKind
	PID  uint32 // in the root PID namespace
	TID  uint32
	Peer uint32 // Forked: the child. Killed: the sender, 0: the kernel
	Comm string // Killed: the sender's
	// Signal is what Killed the process.
	Signal uint8
}

// ProcKind says what happened.
type ProcKind uint8

// The kinds.
const (
	ProcForked ProcKind = iota + 1 // PID made a child process Peer
	ProcExeced                     // PID runs another program now, named Comm
	ProcExited                     // PID's last thread ended
	ProcOOM                        // the kernel kills PID, traced or not, for want of memory
	ProcKilled                     // PID gets a signal that ends it
)

// Counts are exact sums kept in the kernel, whatever became of the records.
// All times are nanoseconds. Open calls are Calls - Done - Abandoned -
// Unmeasured.
type Counts struct {
	Calls      uint64 // entries
	Done       uint64 // returns; their times are in Total and its parts
	Errors     uint64 // returns with a result that is not success
	Nested     uint64 // of Calls: made inside another traced call
	Unmeasured uint64 // of Calls: the return was not watched
	Abandoned  uint64 // entries that never returned: longjmp, exec, thread exit
	Total      uint64 // Total = OnCPU + Runnable + Throttled + blocked, unless Partial > 0
	OnCPU      uint64
	Runnable   uint64
	Throttled  uint64
	Inner      uint64 // of Total: inside traced calls made by these calls
	Partial    uint64 // calls in Done whose OnCPU is unknown and not in OnCPU
	PartialNS  uint64 // of Total: OnCPU or blocked time of those calls
}

// Blocked returns the time that was neither on a CPU nor waiting for one.
func (c *Counts) Blocked() uint64 {
	if used := c.OnCPU + c.Runnable + c.Throttled + c.PartialNS; used < c.Total {
		return c.Total - used
	}
	return 0
}

// Op is one operation of one process.
type Op struct {
	PID  uint32
	Op   events.Op
	Sum  Counts // since the session began
	Last Counts // this tick's share of Sum
	// Dur and DurLast are the durations of the records seen, since the session
	// began and in this tick: ns, each weighted by the calls it stands for.
	Dur, DurLast *stats.Sketch
	// Hist is the kernel's own exact histogram since the session began. Its
	// quantiles serve where Thinned is set. It is not changed once it was told.
	Hist *stats.Hist
	// Thinned says that Dur lacks calls that Sum has: records were thinned or lost.
	Thinned bool
}

// Process is one traced process.
type Process struct {
	PID, PPID uint32
	NSPID     uint32 // its number in its own PID namespace
	UID       uint32
	Comm      string
	Exe       string // path as the process sees it
	Cgroup    string
	Started   time.Time
	Ended     time.Time // zero while it lives
	// Mapped is when the first traced library was mapped, Attached when its
	// probes were in place. Calls in between were not seen.
	Mapped, Attached time.Time
	// Counted says that its launches are counted now and not timed, since the probes
	// on them took too much of a CPU.
	Counted bool
	Where
}

// Library is one traced shared object.
type Library struct {
	Path    string // as the first process that mapped it sees it
	Lib     events.Library
	BuildID string
	Probes  int // symbols with probes
}

// Report is one line about something that could not be done as asked: a symbol
// that a library lacks, a probe at a dear place, a process left entry-only.
type Report struct {
	Kind   string // "missing-symbol", "entry-only", "placement", ...
	Object string
	Why    string
}

// LowerBound is the kind of a report that the calls of an operation, the object, were not all
// counted.
const LowerBound = "lower-bound"

// Drop is a count of records or entries that were not kept, by reason.
type Drop struct {
	Reason string
	Count  uint64
}

// LosesCalls tells whether the reason is that records of calls found no room.
func (d Drop) LosesCalls() bool { return d.Reason == "ring-full" || d.Reason == "kept-ring-full" }

// Self is what the agent itself has used since the session began.
type Self struct {
	CPU time.Duration // of its process; the probes' time is the targets'
	RSS int64         // bytes, now
}

// Overhead is what tracing costs, and what is left out so that it costs no more than it
// may. Shares are of the time of the traced processes: the time that passed, or what
// the threads that make calls had of CPUs where that is more.
type Overhead struct {
	Budget float64 // share; 0: there is no bound, and nothing else is known
	// Share is Probes + Stacks of the process that pays most, and Agent + Tracepoints
	// of all.
	Share, Probes, Stacks, Agent, Tracepoints float64
	Shed                                      []string // what is left out: steps in the order in which they were taken
	// Floor is set where Budget is less than probes need, or less than tracing takes with all
	// left out that helps.
	Floor Floor
}

// Floor is the least that the probes of the process that pays most need: those that may be left
// out count, and do no more.
type Floor struct {
	Share float64       // of its time
	Rate  float64       // calls a second
	Probe time.Duration // a call, on average
}

// Host is the machine's state, read from /proc once a second.
type Host struct {
	CPU       float64 // busy share of all CPUs over the last second, 0-1
	CPUs      int
	MemTotal  int64 // bytes
	MemAvail  int64 // bytes
	SwapTotal int64 // bytes
	SwapUsed  int64 // bytes
	Load      [3]float64
}

// Tick is the state of a session, once a second. Sinks share one value and
// must neither keep nor change what it points to.
type Tick struct {
	Time      time.Time // end of this tick
	Started   time.Time // start of the session
	Seq       uint64    // from 1
	Window    time.Duration
	Ops       []Op // by source, then op, then PID
	Processes []Process
	// Others are processes that are not traced, but have taken a CPU from a thread
	// that is, or woken one, and their parents: as each was when it was first seen
	// to, for they may have ended. Ended is not kept up. By number; not all that
	// ever did, but those that did last.
	Others []Process
	// Threads are those that have made traced calls, and those enrolled because
	// they woke one, by process and thread. One that ends is in one more tick.
	Threads []Thread
	// Breakdowns and Chains are what the session makes of all this: where the
	// time went since it began, by process, and what was lost in the last
	// minutes, the gravest first.
	Breakdowns []Breakdown
	Chains     []Chain
	// Episodes are the steps in the lives of chains that this tick brought. Hidden are
	// chains that nobody wants to see: they are not in Chains.
	Episodes []Episode
	Hidden   []Hidden
	// Untold are causes that cannot be told, or not wholly, since something is not looked
	// at to spare the traced processes, or was not in the last minute: by time.
	Untold []Untold
	// States is what follows from the calls of each process, by PID.
	States []State
	// RollCalls are the collectives that ranks are missing from.
	RollCalls []RollCall
	// Lates are for how long ranks were waited for, in collectives that all have entered
	// since the last tick, by communicator and time.
	Lates []Late
	// Launches are what was launched, by process.
	Launches []Launches
	// Xids are the faults that GPUs reported, in the order in which they came: each
	// is in one tick. GPUs is how the GPUs are, by index.
	Xids      []Xid
	GPUs      []GPU
	Libraries []Library
	// HostProbes are the probes of the kernel's own events. 0: not known, as in a recording.
	HostProbes int
	Pods       []Pod // of this machine, that ask for GPUs; empty also where that is not known
	Reports    []Report
	Drops      []Drop
	// StackPolicy says which calls have their stack taken: "slow", "all", "false"; empty
	// where that is not known.
	StackPolicy string
	Records     uint64 // read since the session began
	Self        Self
	Overhead    Overhead
	Host        Host
	// HostSums are what happened on the host since the last tick, by kind: of traced
	// processes, and of others that use what those wait for.
	HostSums []HostSum
	// Idle says that nothing has changed that is worth telling: what is kept of the
	// machine once a second can be left out.
	Idle  bool
	Final bool // the session's last: everything recorded is in it
}

// Sink takes what a session sees. Calls are delivered in batches, a few
// milliseconds after they were made; Tick once a second and once at the end,
// with Final set. The session calls one sink from one goroutine. An error is
// reported once and the sink is not called again except for Close.
type Sink interface {
	Batch(*Batch) error
	Tick(*Tick) error
	Close() error
}

// Told are the numbers of the processes that the tick tells of: itself, by what they called or by
// what followed from that.
func (t *Tick) Told() map[uint32]bool {
	told := make(map[uint32]bool, len(t.Processes))
	for i := range t.Processes {
		told[t.Processes[i].PID] = true
	}
	for i := range t.Ops {
		told[t.Ops[i].PID] = true
	}
	for i := range t.States {
		told[t.States[i].PID] = true
	}
	return told
}
