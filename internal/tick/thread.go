package tick

import (
	"cmp"

	"ingero/pkg/events"
)

// Times divides a thread's time, in nanoseconds.
type Times struct {
	OnCPU     uint64
	Runnable  uint64 // ready to run, without a CPU
	Throttled uint64 // held back by its cgroup's CPU quota
	Blocked   uint64
}

// Total returns the sum of the parts.
func (t *Times) Total() uint64 { return t.OnCPU + t.Runnable + t.Throttled + t.Blocked }

// Add adds o.
func (t *Times) Add(o *Times) {
	t.OnCPU += o.OnCPU
	t.Runnable += o.Runnable
	t.Throttled += o.Throttled
	t.Blocked += o.Blocked
}

// Thread is the account of one thread, exact even if records were dropped. InCalls.Total() +
// Between.Total() = Until - Since, including the current state.
type Thread struct {
	PID, TID uint32
	Comm     string
	// Enrolled marks a thread that makes no traced calls, but has woken a thread that does. All its
	// time is in Between.
	Enrolled bool
	Ended    bool  // it has exited; this is its last account
	Since    int64 // Unix ns: its first traced call, or its enrollment
	Until    int64 // Unix ns: time of the account
	InCalls  Times // inside outermost traced calls
	Between  Times
	// Sync is the part of InCalls in calls that wait for the GPU (events.ClassSync).
	Sync Times
	Now  ThreadState
	Open []OpenCall // calls that have not returned, outermost first
}

// ThreadState is the current activity of a thread.
type ThreadState struct {
	State   events.WaitState // 0: on a CPU
	Reason  events.Reason    // WaitBlocked
	Syscall events.Syscall   // WaitBlocked
	File    events.FileKind
	Arg     uint64 // as in events.Wait
	Dev     uint32
	CPU     uint16
	Since   int64 // Unix ns
}

// OpenCall is a call that has not returned.
type OpenCall struct {
	Op    events.Op
	Start int64 // Unix ns
	Args  [events.MaxArgs]uint64
	Tag   uint32
}

// ByThread compares threads by PID, TID and start. A thread that ended comes before the one that
// reused its TID.
func ByThread(a, b Thread) int {
	return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Since, b.Since))
}
