package wire

import (
	"time"

	"ingero/internal/tick"
)

// Process is a process that uses CUDA.
type Process struct {
	PID      uint32    `json:"pid"`
	PPID     uint32    `json:"ppid,omitempty"`
	NSPID    uint32    `json:"ns_pid,omitempty"` // in its own PID namespace
	UID      uint32    `json:"uid"`
	Comm     string    `json:"comm,omitempty"`
	Exe      string    `json:"exe,omitempty"`
	Cgroup   string    `json:"cgroup,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Mapped   time.Time `json:"mapped,omitzero"`            // its first CUDA library
	Attached time.Time `json:"attached,omitzero"`          // earlier calls were not seen
	Counted  bool      `json:"launches_counted,omitempty"` // currently counted, not timed
	tick.Where
}

// Op is one operation. calls = done + unmeasured + abandoned + open. The times cover the done
// calls, and are absent if there are none. total_ns = on_cpu_ns + runnable_ns + throttled_ns +
// blocked_ns + partial_ns; partial_ns is either on a CPU or blocked. self_ns is the time outside
// nested traced calls, outer_ns the time of outermost calls.
type Op struct {
	PID         uint32  `json:"pid,omitempty"` // in ticks; a report has it per process
	Source      string  `json:"source"`
	Op          string  `json:"op"`
	Class       string  `json:"class"`
	Function    string  `json:"function,omitempty"`    // if launches are listed by GPU function
	Symbol      string  `json:"symbol,omitempty"`      // linker name
	NoFunction  string  `json:"no_function,omitempty"` // reason of a missing name
	Calls       uint64  `json:"calls"`
	Done        uint64  `json:"done"`
	Errors      uint64  `json:"errors"`
	Nested      uint64  `json:"nested"`
	Unmeasured  uint64  `json:"unmeasured"`
	Abandoned   uint64  `json:"abandoned"`
	Open        uint64  `json:"open"`
	TotalNS     *uint64 `json:"total_ns,omitempty"`
	OnCPUNS     *uint64 `json:"on_cpu_ns,omitempty"`
	RunnableNS  *uint64 `json:"runnable_ns,omitempty"`
	ThrottledNS *uint64 `json:"throttled_ns,omitempty"` // absent: none
	BlockedNS   *uint64 `json:"blocked_ns,omitempty"`
	PartialNS   *uint64 `json:"partial_ns,omitempty"`
	SelfNS      *uint64 `json:"self_ns,omitempty"`
	OuterNS     *uint64 `json:"outer_ns,omitempty"`
	P50NS       *int64  `json:"p50_ns,omitempty"`
	P95NS       *int64  `json:"p95_ns,omitempty"`
	P99NS       *int64  `json:"p99_ns,omitempty"`
	MaxNS       *int64  `json:"max_ns,omitempty"`
	// QuantileError is the largest relative error of the quantiles.
	QuantileError float64 `json:"quantile_error,omitempty"`
	Thinned       bool    `json:"thinned,omitempty"`
	LowerBound    bool    `json:"lower_bound,omitempty"` // incomplete count
	Last          *OpLast `json:"last,omitempty"`        // in ticks: this tick's share
}

// Thread is the account of a thread: in_calls and between add up to the time from since to
// until.
type Thread struct {
	PID      uint32       `json:"pid"`
	TID      uint32       `json:"tid"`
	Comm     string       `json:"comm,omitempty"`
	Enrolled bool         `json:"enrolled,omitempty"` // makes no traced calls, but woke a thread that does
	Ended    bool         `json:"ended,omitempty"`
	Since    time.Time    `json:"since"`
	Until    time.Time    `json:"until"`
	InCalls  Times        `json:"in_calls"`
	Between  Times        `json:"between_calls"`
	Sync     Times        `json:"in_synchronizing_calls"` // of in_calls
	Now      *ThreadState `json:"now,omitempty"`
	Open     []OpenCall   `json:"open,omitempty"` // calls that have not returned, outermost first
}

// Times are the states of a thread: on a CPU, ready to run, throttled by a CPU quota, blocked.
type Times struct {
	OnCPUNS     uint64 `json:"on_cpu_ns"`
	RunnableNS  uint64 `json:"runnable_ns"`
	ThrottledNS uint64 `json:"throttled_ns"`
	BlockedNS   uint64 `json:"blocked_ns"`
}

// ThreadState is what a thread does now.
type ThreadState struct {
	State  string    `json:"state"` // on-cpu, runnable, throttled, blocked
	Reason string    `json:"reason,omitempty"`
	Call   string    `json:"syscall,omitempty"`
	File   string    `json:"file,omitempty"`
	Arg    uint64    `json:"arg,omitempty"`
	Dev    string    `json:"dev,omitempty"`
	CPU    uint16    `json:"cpu"`
	Since  time.Time `json:"since,omitzero"`
}

// OpenCall is a call that has not returned.
type OpenCall struct {
	Op    string    `json:"op"`
	Start time.Time `json:"start"`
}

// OpLast is a tick's own share of an operation. Times and quantiles are absent if no call
// returned in it.
type OpLast struct {
	Calls       uint64  `json:"calls"`
	Done        uint64  `json:"done"`
	Errors      uint64  `json:"errors"`
	TotalNS     *uint64 `json:"total_ns,omitempty"`
	OnCPUNS     *uint64 `json:"on_cpu_ns,omitempty"`
	RunnableNS  *uint64 `json:"runnable_ns,omitempty"`
	ThrottledNS *uint64 `json:"throttled_ns,omitempty"`
	BlockedNS   *uint64 `json:"blocked_ns,omitempty"`
	PartialNS   *uint64 `json:"partial_ns,omitempty"`
	P50NS       *int64  `json:"p50_ns,omitempty"`
	P95NS       *int64  `json:"p95_ns,omitempty"`
	P99NS       *int64  `json:"p99_ns,omitempty"`
	MaxNS       *int64  `json:"max_ns,omitempty"`
}
