package events

// CallFlags tell what a [Call] is and how far its figures go.
type CallFlags uint16

// The flags. Their values are those of the kernel's call record (bpf/abi.h).
const (
	// CallNested marks a call made inside another traced call; Parent names it.
	CallNested CallFlags = 1 << iota
	// CallUnmeasured marks a call whose return was not watched: Duration,
	// Result and the ledger parts are unknown, not zero.
	CallUnmeasured
	// CallFailed marks a call whose result is an error.
	CallFailed
	// CallLedgerPartial marks a call whose thread blocked and moved to another
	// CPU: Runnable is right, OnCPU and Blocked are known as a sum only.
	CallLedgerPartial
	// CallGapPartial is CallLedgerPartial for the gap before the call.
	CallGapPartial
	// CallArgsPartial marks a call some of whose arguments could not be read.
	CallArgsPartial
	// CallInherited marks a driver launch that was counted, not looked into: its
	// Start, Args and Tag are those of the runtime launch around it, whose own
	// Args begin with the host function in place of the driver's.
	CallInherited
	// CallUnseen marks a call that the ledger has not seen all switches of, in it
	// or in the gap before: the parts of that are the scheduler's own figures, and
	// waits may have no records.
	CallUnseen CallFlags = 1 << 11
	// CallNoLedger marks a call of which nobody measured where its time went: one
	// of another program's recording. CallLedgerPartial is set too, and the parts
	// are 0. The kernel never sets it.
	CallNoLedger CallFlags = 1 << 12
)

// Call is one call of a traced function.
//
// Times are nanoseconds. Start is on the wall clock (Unix epoch); it is the
// kernel's monotonic clock plus the offset of the session. OnCPU + Runnable +
// Throttled + Blocked == Duration, and the same holds for the gap, which is the time from
// the return of the thread's previous outermost call that has a record to this call (zero
// for nested calls and for a thread's first): calls without one are in it.
type Call struct {
	Start    int64
	Duration int64
	OnCPU    int64
	Runnable int64 // had no CPU though it could have run
	// Throttled is the time that the CPU quota of its cgroup took. Where the
	// scheduler's own figures are all there is, it is part of Runnable.
	Throttled int64
	Blocked   int64

	Gap          int64
	GapOnCPU     int64
	GapRunnable  int64
	GapThrottled int64
	GapBlocked   int64

	Args   [MaxArgs]uint64 // as the row's Keep names them
	PID    uint32          // thread group, in the root PID namespace
	TID    uint32
	Tag    uint32 // the row's Tag: a kind, a direction, a flag word
	Result int32  // cudaError_t, CUresult or ncclResult_t
	Weight uint32 // calls this record stands for; 1 unless thinned
	Stack  uint32 // ID of the [Stack], 0 when none was taken
	Op     Op
	Parent Op // the call around this one, 0 when outermost
	Flags  CallFlags
	// Launches are the thread's outermost launches since the last call that said so, also
	// those without a record: of outermost calls that are no launches, at most 65,535. 0 in
	// recordings of before 1.0.
	Launches uint16
	// Device is 1 + the ordinal of the device that was current, as the process counts
	// its devices; 0: not known. It follows from calls before, not from this record.
	Device int16
	// StackLevel says how many calls the stack of this one is a sample for: 4^StackLevel
	// of those whose stack is not sure to be taken.
	StackLevel uint8
}

// StackWeight returns how many calls the stack of this one stands for, 0 when none was taken.
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
