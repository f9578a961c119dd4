package wire

import (
	"time"

	"ingero/internal/tick"
)

// HostSum is a host sum of one kind. Counts, bytes, times and quantiles are absent if the kind
// has none; the process is absent if there is none in particular. The quantiles are within a factor
// of 1.5.
type HostSum struct {
	Kind    string  `json:"kind"`
	PID     uint32  `json:"pid,omitempty"`
	Comm    string  `json:"comm,omitempty"`
	Sender  *uint32 `json:"sender_pid,omitempty"` // sender of a signal, owner of comm; 0: the kernel
	Holder  *uint32 `json:"holder_pid,omitempty"` // holder of the lock that pid was refused; 0: unknown
	Object  string  `json:"object,omitempty"`
	Count   *uint64 `json:"count,omitempty"`
	Failed  uint64  `json:"failed,omitempty"`
	Bytes   *uint64 `json:"bytes,omitempty"`
	TotalNS *uint64 `json:"total_ns,omitempty"`
	P50NS   *int64  `json:"p50_ns,omitempty"`
	P99NS   *int64  `json:"p99_ns,omitempty"`
}

// Drop counts the records that were dropped for one reason.
type Drop struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
	Lost   bool   `json:"lost"` // data is missing
}

// Limitation is something that failed or was limited: a symbol missing from a library, a probe at
// an expensive place.
type Limitation struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Why    string `json:"why"`
}

// Host is the state of the machine.
type Host struct {
	CPU       float64    `json:"cpu"` // busy share, 0-1
	CPUs      int        `json:"cpus"`
	MemTotal  int64      `json:"mem_total_bytes"`
	MemAvail  int64      `json:"mem_available_bytes"`
	SwapTotal int64      `json:"swap_total_bytes"`
	SwapUsed  int64      `json:"swap_used_bytes"`
	Load      [3]float64 `json:"load"` // over 1, 5 and 15 minutes
}

// Self is ingero's own use of the machine.
type Self struct {
	CPUNS int64 `json:"cpu_ns"` // since the session began
	RSS   int64 `json:"rss_bytes"`
}

// Report is the report of a window. Times are UTC, durations nanoseconds; unknown values are
// absent.
type Report struct {
	From       time.Time         `json:"from,omitzero"`
	To         time.Time         `json:"to,omitzero"`
	Node       string            `json:"node,omitempty"`
	Source     string            `json:"source,omitempty"`
	Labels     []string          `json:"labels,omitempty"` // the report covers only the time in which processes had all of them: "tenant=a"
	Chains     []Chain           `json:"chains"`           // most severe first
	Hidden     []Hidden          `json:"hidden,omitempty"` // chains that are not shown
	Processes  []ProcessReport   `json:"processes"`
	Threads    []Thread          `json:"threads"`                   // as of the end
	Concurrent []uint32          `json:"concurrent_pids,omitempty"` // used CUDA at the same time
	Servers    []Server          `json:"servers,omitempty"`         // requests to servers, by process and port
	Engines    []EngineSteps     `json:"engines,omitempty"`         // steps of inference servers' engines
	Xids       []Xid             `json:"xids,omitempty"`
	Notes      []string          `json:"notes"`
	Drops      []Drop            `json:"drops"`
	Reports    []Limitation      `json:"reports"`
	Host       *Host             `json:"host,omitempty"`
	Self       *Self             `json:"self,omitempty"`
	HostSums   []HostSum         `json:"host_sums"`           // host events
	Inference  []InferenceServer `json:"inference,omitempty"` // servers' own metrics
}

// ProcessReport is a process with its calls in a window.
type ProcessReport struct {
	Process
	Engine    *tick.Engine `json:"engine,omitempty"` // if it belongs to an inference server
	From      time.Time    `json:"from,omitzero"`    // of the window, since the attach
	To        time.Time    `json:"to,omitzero"`
	Labelled  *LabelTime   `json:"labelled,omitempty"` // when it had the report's labels
	Calls     uint64       `json:"calls"`              // in all layers, including nested calls
	Outermost uint64       `json:"outermost_calls"`    // not nested
	Errors    uint64       `json:"errors"`             // in all layers
	// Breakdown divides the time by the threads' ledger, Time by the calls and the gaps between
	// them; absent: unknown.
	Breakdown *Breakdown  `json:"breakdown,omitempty"`
	Time      *TimeReport `json:"time,omitempty"`
	Launch    *uint64     `json:"launches,omitempty"`
	Memory    *Memory     `json:"memory,omitempty"`    // absent: no allocations, or unknown
	Functions *Launches   `json:"functions,omitempty"` // launched functions
	Layers    []Layer     `json:"layers"`
	Ops       []Op        `json:"ops"`
	Notes     []string    `json:"notes"`
	// Unexplained are steps that no cause explains; absent: few, or the program's own way of working.
	Unexplained *Unexplained `json:"unexplained,omitempty"`
}

// Unexplained are steps of a process that no rule explains: slow ones, if the process has no cause, if they
// took at least 200 ms longer than usual together, and this is at least 5 % of the time of all steps; or its
// unfinished last step, if no cause reaches into it. They are no cause: they have no severity, and the program
// may work this way.
type Unexplained struct {
	SlowSteps  uint64 `json:"slow_steps"`
	Unfinished bool   `json:"unfinished,omitempty"` // the last step, which had not ended
	ExcessNS   int64  `json:"excess_ns"`            // together, compared to usual steps
	Wait       string `json:"wait"`                 // what most of the extra time of the slowest, or of the unfinished step, was spent blocked on
	Text       string `json:"text"`                 // all of it, in sentences
}

// LabelTime is the time in which a process had the labels of a report.
type LabelTime struct {
	Ranges  int   `json:"ranges"` // time ranges, from the first's start to the last's end: From and To
	TotalNS int64 `json:"total_ns"`
	// KnownNS is the part of TotalNS that the breakdown covers: the times between two readings of the
	// threads' ledger that lie in one range.
	KnownNS int64 `json:"breakdown_ns"`
}

// TimeReport divides the time of a process's threads from its first call to its last: Parts add up
// to ThreadNS.
type TimeReport struct {
	ThreadNS  uint64      `json:"thread_ns"`
	GapsKnown bool        `json:"between_calls_known"`
	Estimated bool        `json:"between_calls_estimated"`
	Parts     []TimePart  `json:"parts"`
	Classes   []ClassTime `json:"classes"` // the time in calls, by class
}

// TimePart is one part of the time of threads.
type TimePart struct {
	Name      string   `json:"name"`
	NS        uint64   `json:"ns"`
	Percent   float64  `json:"percent"` // one decimal; all add up to 100
	InCallsNS uint64   `json:"in_calls_ns"`
	BetweenNS uint64   `json:"between_calls_ns"`
	Ops       []OpTime `json:"ops,omitempty"` // InCallsNS, the largest first
}

// OpTime is an operation's share of a part.
type OpTime struct {
	Op    string `json:"op"`
	NS    uint64 `json:"ns"`
	Calls uint64 `json:"calls"` // outermost calls
}

// ClassTime is the time in calls of one class.
type ClassTime struct {
	Class   string  `json:"class"`
	NS      uint64  `json:"ns"`
	Percent float64 `json:"percent"` // of ThreadNS
}

// Layer sums up the calls of one source.
type Layer struct {
	Source    string  `json:"source"`
	Calls     uint64  `json:"calls"`
	Outermost uint64  `json:"outermost_calls"` // not nested
	Errors    uint64  `json:"errors"`
	SelfNS    *uint64 `json:"self_ns,omitempty"`
	// SelfAtMost: SelfNS includes counted-only inner calls.
	SelfAtMost bool `json:"self_is_upper_bound"`
}
