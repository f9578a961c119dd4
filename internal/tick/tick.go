package tick

import (
	"time"

	"ingero/internal/stats"
	"ingero/pkg/events"
)

// Batch is what a source delivers at one poll. Its slices belong to the source and are valid until
// the next poll.
type Batch struct {
	Calls []events.Call
	// Waits are the waits of threads that made calls, and of threads that woke them. All waits of a
	// thread before or inside a call are in this batch or an earlier one than the call.
	Waits []events.Wait
	// Ended are the last accounts of threads that have ended, or whose process has called exec.
	Ended []Thread
	// Procs are events of processes' lives. Starts are in this batch or an earlier one than the
	// calls that follow them. Exits are in this batch or a later one than the last calls.
	Procs []ProcEvent
	// Ranges are NVTX calls, in order for each thread. The thread's waits that ended before such a
	// call are in this batch or an earlier one.
	Ranges []Range
	// Labels are changes of labels, in the order in which the programs sent them.
	Labels []Label
	// Texts are string arguments of calls, each before its call.
	Texts []events.Text
	// Functions are resolved names of GPU functions, each before the first launch of the function,
	// unless the launch came before the name could be known.
	Functions []events.Function
	// PyCodes are the kernel's records of Python code objects since the last stack, for package
	// python.
	PyCodes [][]byte
	// RawStacks are new stacks as addresses, each before the first call that has it. Stacks are the
	// same stacks with names, some time later, for the sinks.
	RawStacks []RawStack
	Stacks    []events.Stack
}

// RawStack is an unresolved stack. Its frames are addresses, innermost first.
type RawStack struct {
	Time    int64 // Unix nanoseconds
	ID      uint32
	PID     uint32
	TID     uint32
	PyEpoch uint32 // of the process's Python interpreter
	PyEnd   uint32 // how far the walk of the Python frames came
	End     uint8  // why the native walk ended: unwind.End
	Own     bool   // as in events.Stack
	IPs     []uint64
	Py      []PyFrame
	PyCodes [][]byte // earlier kernel records of code objects, not only of this stack
}

// PyFrame is an unresolved Python frame.
type PyFrame struct {
	Code  uint64 // address of the code object
	Mark  uint32 // distinguishes objects that reuse the address
	Instr int32  // bytes from the first instruction
}

// ProcEvent is one event in a process's life, never thinned and never dropped.
type ProcEvent struct {
	Time int64 // Unix nanoseconds
	Kind ProcKind
	PID  uint32 // in the root PID namespace
	TID  uint32
	Peer uint32 // Forked: the child. Killed: the sender, 0: the kernel
	Comm string // Killed: the sender's
	// Signal is the signal that killed the process.
	Signal uint8
}

// ProcKind is the kind of a process event.
type ProcKind uint8

// The kinds.
const (
	ProcForked ProcKind = iota + 1 // PID made a child process Peer
	ProcExeced                     // PID runs another program now, named Comm
	ProcExited                     // PID's last thread ended
	ProcOOM                        // the kernel kills PID, traced or not, for lack of memory
	ProcKilled                     // PID gets a fatal signal
)

// Counts are exact sums from the kernel, even if records were dropped. All times are nanoseconds.
// Open calls are Calls - Done - Abandoned - Unmeasured.
type Counts struct {
	Calls      uint64 // entries
	Done       uint64 // returns; their times are in Total and its parts
	Errors     uint64 // returns with an error result
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
	Last Counts // part of Sum in this tick
	// Dur and DurLast are the durations in the records, since the session began and in this tick:
	// ns, each weighted by the calls it represents.
	Dur, DurLast *stats.Sketch
	// Hist is the kernel's exact histogram since the session began. Its quantiles serve if Thinned
	// is set. It is never modified after publication.
	Hist *stats.Hist
	// Thinned means that Dur lacks calls that Sum has: records were thinned or lost.
	Thinned bool
}

// Process is one traced process.
type Process struct {
	PID, PPID uint32
	NSPID     uint32 // PID in its own PID namespace
	UID       uint32
	Comm      string
	Exe       string // path as the process sees it
	Cgroup    string
	Started   time.Time
	Ended     time.Time // zero while it runs
	// Mapped is when the first traced library was mapped, Attached when its probes were in place.
	// Calls in between were not seen.
	Mapped, Attached time.Time
	// Counted means that its launches are now counted and not timed, because the probes on them
	// took too much CPU time.
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

// Report is one line about something that failed or was limited: a symbol missing from a library, a
// probe at an expensive place, an entry-only process.
type Report struct {
	Kind   string // "missing-symbol", "entry-only", "placement", ...
	Object string
	Why    string
}

// LowerBound is the kind of a report about an operation (the object) whose calls were not all
// counted.
const LowerBound = "lower-bound"

// Drop counts dropped records or entries by reason.
type Drop struct {
	Reason string
	Count  uint64
}

// LosesCalls reports whether the reason is a full ring buffer for call records.
func (d Drop) LosesCalls() bool { return d.Reason == "ring-full" || d.Reason == "kept-ring-full" }

// Self is the agent's own resource usage since the session began.
type Self struct {
	CPU time.Duration // of its process; probes run on the targets' time
	RSS int64         // current bytes
}

// Overhead is the cost of tracing, and the levels of shedding that limit it. Shares are relative to
// the time of the traced processes: elapsed time, or the CPU time of the threads that make calls if
// that is more.
type Overhead struct {
	Budget float64 // share; 0: no limit, and the other fields are unset
	// Share is Probes + Stacks of the process with the highest cost, plus Agent + Tracepoints of
	// all.
	Share, Probes, Stacks, Agent, Tracepoints float64
	Shed                                      []string // active shedding levels, in order of activation
	// Floor is set if Budget is less than what probes need, or less than the cost with everything
	// shed that helps.
	Floor Floor
}

// Floor is the minimum cost of the probes of the process with the highest cost: probes that may be
// shed only count.
type Floor struct {
	Share float64       // of the process's time
	Rate  float64       // calls per second
	Probe time.Duration // per call, on average
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

// Tick is the state of a session, once a second. Sinks share one value and must neither retain nor
// modify what it points to.
type Tick struct {
	Time    time.Time // end of this tick
	Started time.Time // start of the session
	Seq     uint64    // from 1
	Window  time.Duration
	// Ahead is how far the wall clock is ahead of Time, because it was set or the machine slept since
	// the session began; negative: behind. All times of a session are by its own clock, which has no
	// steps; [Tick.Wall] converts those that leave the machine. 0 in a replay of a recording.
	Ahead     time.Duration
	Ops       []Op // by source, then op, then PID
	Processes []Process
	// Others are untraced processes that have taken a CPU from a traced thread, or woken one, and the
	// ancestors of these and of traced processes. Each is as of its first such event, since it may have
	// ended. Ended is not updated. They are ordered by PID, and bounded to the most recent ones.
	Others []Process
	// Threads are those that have made traced calls, and those enrolled because they woke one,
	// ordered by process and thread. A thread that ends is in one more tick.
	Threads []Thread
	// Breakdowns and Chains are the session's results: the time since it began, by process, and the
	// losses of the last minutes, most severe first.
	Breakdowns []Breakdown
	Chains     []Chain
	// Episodes are the events of chains in this tick. Hidden are chains that the user hid: they are
	// not in Chains.
	Episodes []Episode
	Hidden   []Hidden
	// Untold are causes that cannot be fully reported because an input is shed, or was in the last
	// minute: ordered by time.
	Untold []BlindSpot
	// States is derived from the calls of each process, by PID.
	States []State
	// RollCalls are the collectives with missing ranks.
	RollCalls []RollCall
	// Lates are the times when ranks were waited for, in collectives that all ranks have entered
	// since the last tick, by communicator and time.
	Lates []Straggler
	// Launches has the launched functions, by process.
	Launches []Launches
	// Xids are the faults reported by GPUs, in order of arrival, each in one tick. GPUs is the
	// state of the GPUs, by index.
	Xids []Xid
	GPUs []GPU
	// Requests are those to servers of traced jobs that have ended since the last tick.
	Requests []Request
	// EngineSteps sum up the steps that the engines of these servers ended since the last tick, by
	// engine, kind and graph.
	EngineSteps []EngineSteps
	// Inference are the reads of inference servers' metrics since the last tick.
	Inference []Inference
	Libraries []Library
	// HostProbes is the number of probes on kernel events. 0: unknown, as in a recording.
	HostProbes int
	Pods       []Pod // pods on this machine that request GPUs; empty also if unknown
	Reports    []Report
	Drops      []Drop
	// StackPolicy is which calls have their stack taken: "slow", "all", "false"; empty if unknown.
	StackPolicy string
	Records     uint64 // read since the session began
	Self        Self
	Overhead    Overhead
	Host        Host
	// HostSums are the host events since the last tick, by kind: of traced processes, and of others
	// that use the same resources.
	HostSums []HostSum
	// Idle means that nothing worth reporting has changed: the per-second record of the machine can
	// be left out.
	Idle  bool
	Final bool // the session's last tick: everything recorded is in it
}

// Sink receives what a session sees. Batches of calls arrive a few milliseconds after the calls
// were made; Tick is called once a second and once at the end, with Final set. The session calls a
// sink from one goroutine. An error is reported once and the sink is not called again except for
// Close.
type Sink interface {
	Batch(*Batch) error
	Tick(*Tick) error
	Close() error
}

// TicksOnly is embedded in a sink that needs no batches.
type TicksOnly struct{}

// Batch implements [Sink].
func (TicksOnly) Batch(*Batch) error { return nil }

// WantsBatches returns false, so that a session passes no batches to the sink.
func (TicksOnly) WantsBatches() bool { return false }

// PIDs returns the PIDs of the processes in the tick: those listed, with calls, or with results
// derived from calls.
func (t *Tick) PIDs() map[uint32]bool {
	pids := make(map[uint32]bool, len(t.Processes))
	for i := range t.Processes {
		pids[t.Processes[i].PID] = true
	}
	for i := range t.Ops {
		pids[t.Ops[i].PID] = true
	}
	for i := range t.States {
		pids[t.States[i].PID] = true
	}
	return pids
}
