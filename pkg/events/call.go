package events

// CallFlags describe a [Call] and the limits of its figures.
type CallFlags uint16

// The flags. Their values are those of the kernel's call record (bpf/abi.h).
const (
	// CallNested marks a call made inside another traced call; Parent names it.
	CallNested CallFlags = 1 << iota
	// CallUnmeasured marks a call whose return was not watched: Duration, Result and the ledger
	// parts are unknown, not zero.
	CallUnmeasured
	// CallFailed marks a call whose result is an error.
	CallFailed
	// CallLedgerPartial marks a call whose thread blocked and moved to another CPU: Runnable is
	// exact, OnCPU and Blocked are known only as a sum.
	CallLedgerPartial
	// CallGapPartial is CallLedgerPartial for the gap before the call.
	CallGapPartial
	// CallArgsPartial marks a call with arguments that could not be read.
	CallArgsPartial
	// CallInherited marks a driver launch that was counted but not examined. Its Start, Args and
	// Tag are those of the runtime launch around it, whose Args begin with the host function
	// instead of the driver's.
	CallInherited
	// CallGraphs marks a call with Launches among which there was a graph; CallNoGraphs one without.
	// Calls of recordings from before 1.0 have neither.
	CallGraphs
	CallNoGraphs
	// CallUnseen marks a call for which the ledger missed context switches, in the call or in the
	// gap before. Those parts are the scheduler's own figures, and waits may have no records.
	CallUnseen CallFlags = 1 << 11
	// CallNoLedger marks a call without measured parts, from another program's recording.
	// CallLedgerPartial is set too, and the parts are 0. The kernel never sets it.
	CallNoLedger CallFlags = 1 << 12
)

// The clock of each CPU samples the stacks of running threads.
const (
	// SampleHz is the samples per second (CLOCK_NS in bpf/profile.h). It is odd, so that it does not beat
	// against programs' timers.
	SampleHz = 99
	// SampledGap is the time since a thread's last call from which on it is sampled, in ns (LONG_GAP in
	// bpf/abi.h).
	SampledGap = 1_000_000
)

// Call is one call of a traced function.
//
// Times are nanoseconds. Start is on the wall clock (Unix epoch); it is the kernel's monotonic
// clock plus the offset of the session. OnCPU + Runnable + Throttled + Blocked == Duration, and the
// same holds for the gap. The gap is the time from the return of the thread's previous recorded
// outermost call to this call. It includes calls without a record. It is zero for nested calls and
// for a thread's first call.
type Call struct {
	Start    int64
	Duration int64
	OnCPU    int64
	Runnable int64 // ready to run, without a CPU
	// Throttled is the time taken by the CPU quota of the thread's cgroup. It is part of Runnable
	// if only the scheduler's own figures exist.
	Throttled int64
	Blocked   int64

	Gap          int64
	GapOnCPU     int64
	GapRunnable  int64
	GapThrottled int64
	GapBlocked   int64

	Args   [MaxArgs]uint64 // named by the row's Keep
	PID    uint32          // thread group, in the root PID namespace
	TID    uint32
	Tag    uint32 // the row's Tag: a kind, a direction, a flag word
	Result int32  // cudaError_t, CUresult or ncclResult_t
	Weight uint32 // calls that this record represents; 1 unless thinned
	Stack  uint32 // ID of the [Stack], 0 when none was taken
	// GapStack is the ID of the [Stack] in which the thread spent most of GapOnCPU. It is sampled,
	// from [SampledGap] on after the last call; 0: none was taken.
	GapStack uint32
	Op       Op
	Parent   Op // the enclosing call, 0 if outermost
	Flags    CallFlags
	// Launches counts the thread's outermost launches since the last call that reported them, with
	// or without a record. It is set for outermost calls that are no launches, at most 65,535. It
	// is 0 in recordings from before 1.0.
	Launches uint16
	// Device is 1 + the ordinal of the current device, by the process's numbering; 0: unknown. It
	// is derived from earlier calls, not from this record.
	Device int16
	// StackLevel gives the number of calls that this stack samples: 4^StackLevel of the calls whose
	// stack is not always taken.
	StackLevel uint8
}

// StackWeight returns the number of calls that this stack represents, 0 without a stack.
func (c *Call) StackWeight() uint64 {
	if c.Stack == 0 {
		return 0
	}
	return uint64(c.Weight) << (2 * min(c.StackLevel, MaxStackLevel))
}

// MaxStackLevel is the highest [Call.StackLevel].
const MaxStackLevel = 5

// End returns when the call returned, in nanoseconds of the wall clock.
func (c *Call) End() int64 { return c.Start + c.Duration }
