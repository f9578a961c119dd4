package wire

import "time"

// Breakdown divides the time of a process's threads. The parts add up to elapsed_ns.
type Breakdown struct {
	PID       uint32          `json:"pid"`
	Threads   int             `json:"threads"`
	ElapsedNS uint64          `json:"elapsed_ns"`
	Parts     []BreakdownPart `json:"parts"`
	Steps     int             `json:"steps"`
	StepP50NS int64           `json:"step_p50_ns,omitempty"`
	StepP99NS int64           `json:"step_p99_ns,omitempty"`
	// Time that steps lost by waiting for a CPU after the GPU finished, with its interval.
	CriticalNS    uint64 `json:"critical_ns"`
	CriticalMinNS uint64 `json:"critical_min_ns"`
	CriticalMaxNS uint64 `json:"critical_max_ns"`
	// ByThread is the same time by thread, longest time in calls first.
	ByThread []ThreadTime `json:"by_thread,omitempty"`
	Code     []CodeTime   `json:"code,omitempty"` // of cpu_between_calls: places in the code, from samples of times between calls of 1 ms and more
	Loop     *Loop        `json:"loop,omitempty"` // absent: no repetition found
}

// CodeTime is the CPU time of a place in the code.
type CodeTime struct {
	At string `json:"at"`
	NS uint64 `json:"ns"`
}

// BreakdownPart is one part; by has its shares, if known.
type BreakdownPart struct {
	Name    string  `json:"name"`
	NS      uint64  `json:"ns"`
	Percent float64 `json:"percent"` // one decimal; all add up to 100
	By      []Share `json:"by,omitempty"`
}

// Share is the part of a time that one process or one kind of wait has.
type Share struct {
	NS     uint64 `json:"ns"`
	Count  uint64 `json:"count"`
	Comm   string `json:"comm,omitempty"` // had the CPU, or ended the wait
	PID    uint32 `json:"pid,omitempty"`
	TID    uint32 `json:"tid,omitempty"`
	Own    bool   `json:"own,omitempty"`
	Agent  bool   `json:"agent,omitempty"`
	Idle   bool   `json:"idle,omitempty"`
	ByIRQ  bool   `json:"by_irq,omitempty"`
	Reason string `json:"reason,omitempty"` // reason of the wait
	Call   string `json:"syscall,omitempty"`
	File   string `json:"file,omitempty"`
	Arg    uint64 `json:"arg,omitempty"`
	Dev    string `json:"dev,omitempty"`
	At     string `json:"at,omitempty"`     // the GIL: where it was released
	Across string `json:"across,omitempty"` // the call during which it was held
	Waker  *Waker `json:"waker,omitempty"`
}

// Waker is what the thread that ended the waits did meanwhile.
type Waker struct {
	OnCPUNS     uint64 `json:"on_cpu_ns"`
	RunnableNS  uint64 `json:"runnable_ns"`
	ThrottledNS uint64 `json:"throttled_ns"`
	BlockedNS   uint64 `json:"blocked_ns"`
	Reason      string `json:"reason,omitempty"`
	Call        string `json:"syscall,omitempty"`
	Dev         string `json:"dev,omitempty"`
	ByComm      string `json:"by_comm,omitempty"` // had the CPU while it was runnable
	ByPID       uint32 `json:"by_pid,omitempty"`
	Hypervisor  bool   `json:"hypervisor,omitempty"` // the hypervisor took the CPU
	RootComm    string `json:"root_comm,omitempty"`  // thread at the end of the chain, if another
	RootPID     uint32 `json:"root_pid,omitempty"`
	RootTID     uint32 `json:"root_tid,omitempty"`
	At          string `json:"at,omitempty"` // place in the program where that thread spent most of the time
}

// Loop has the steps that a program repeats, of one thread.
type Loop struct {
	TID     uint32     `json:"tid"`
	Op      string     `json:"op"`                   // the closing call
	Waits   int        `json:"waits"`                // GPU waits in a step
	Range   string     `json:"nvtx_range,omitempty"` // NVTX range of the steps; # is a changing number
	Steps   uint64     `json:"steps"`
	TotalNS int64      `json:"total_ns"`
	P50NS   int64      `json:"p50_ns"`
	P99NS   int64      `json:"p99_ns"`
	Usual   []StepPart `json:"usual"` // median of each part
	Slowest []Step     `json:"slowest"`
}

// Step is one step; its parts add up to ns.
type Step struct {
	From  time.Time  `json:"from"`
	To    time.Time  `json:"to"`
	NS    int64      `json:"ns"`
	Parts []StepPart `json:"parts"`
	Took  []Share    `json:"took,omitempty"` // CPU users and waits
	Why   string     `json:"why,omitempty"`  // differences from the usual step, in words
}

// StepPart is one part of a step.
type StepPart struct {
	Name string `json:"name"`
	NS   int64  `json:"ns"`
}

// ThreadTime divides the time of one thread: all parts of all places add up to elapsed_ns, and
// their percentages to 100.
type ThreadTime struct {
	TID       uint32      `json:"tid,omitempty"` // absent: all threads without their own entry
	Comm      string      `json:"comm,omitempty"`
	ElapsedNS uint64      `json:"elapsed_ns"`
	In        []PlaceTime `json:"in"`
}

// PlaceTime divides the time of a thread in one place.
type PlaceTime struct {
	Place   string          `json:"place"` // gpu_waits, calls, between_calls
	NS      uint64          `json:"ns"`
	Percent float64         `json:"percent"` // one decimal, of elapsed_ns, as in the parts
	Parts   []BreakdownPart `json:"parts"`
}
