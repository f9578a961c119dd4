package wire

import (
	"encoding/json"
	"time"
)

// CallLine is a call. Times are absent if its return was not seen: on_cpu_ns, runnable_ns,
// throttled_ns and blocked_ns add up to duration_ns. gap_ns and its parts are the time since the
// thread's last outermost call.
type CallLine struct {
	Type           string                     `json:"type"` // "call"
	Time           time.Time                  `json:"timestamp"`
	PID            uint32                     `json:"pid"`
	TID            uint32                     `json:"tid"`
	Comm           string                     `json:"comm,omitempty"`
	Source         string                     `json:"source"`
	Op             string                     `json:"op"`
	Parent         string                     `json:"parent,omitempty"`   // the call around it
	Device         *uint16                    `json:"device,omitempty"`   // ordinal of the current device
	Function       string                     `json:"function,omitempty"` // linker name of the launched function
	Weight         uint32                     `json:"weight,omitempty"`   // number of calls that it represents, if more than one
	DurationNS     *int64                     `json:"duration_ns,omitempty"`
	Duration       string                     `json:"duration,omitempty"` // as text
	Result         *int32                     `json:"result,omitempty"`
	Error          string                     `json:"error,omitempty"` // if the call failed
	RunnableNS     *int64                     `json:"runnable_ns,omitempty"`
	ThrottledNS    *int64                     `json:"throttled_ns,omitempty"` // absent: none
	OnCPUNS        *int64                     `json:"on_cpu_ns,omitempty"`
	BlockedNS      *int64                     `json:"blocked_ns,omitempty"`
	GapNS          *int64                     `json:"gap_ns,omitempty"`
	GapRunnableNS  *int64                     `json:"gap_runnable_ns,omitempty"`
	GapThrottledNS *int64                     `json:"gap_throttled_ns,omitempty"`
	GapOnCPUNS     *int64                     `json:"gap_on_cpu_ns,omitempty"`
	GapBlockedNS   *int64                     `json:"gap_blocked_ns,omitempty"`
	StackID        uint32                     `json:"stack_id,omitempty"`
	StackWeight    uint64                     `json:"stack_weight,omitempty"` // number of calls that the stack represents, if more than one
	GapStackID     uint32                     `json:"gap_stack_id,omitempty"` // of most of gap_on_cpu_ns, if the gap was long
	Args           map[string]json.RawMessage `json:"args"`                   // by C parameter: numbers; pointers, handles and kinds as text; dim3 as a list of three
	LedgerPartial  bool                       `json:"ledger_partial,omitempty"`
	GapPartial     bool                       `json:"gap_partial,omitempty"`
	ArgsPartial    bool                       `json:"args_partial,omitempty"`
	Inherited      bool                       `json:"inherited,omitempty"`       // timestamp and args are the parent's
	UnseenSwitches bool                       `json:"unseen_switches,omitempty"` // the parts are the scheduler's own figures
	Stack          []StackFrame               `json:"stack,omitempty"`           // innermost first
	Node           string                     `json:"node,omitempty"`            // of recorded calls
	Session        string                     `json:"session,omitempty"`         // of recorded calls
}

// StackFrame is a frame of a call's stack. A Python frame has py_file, py_func and py_line, a native
// one ip.
type StackFrame struct {
	GPU    string `json:"gpu,omitempty"` // the function that the call launched
	Gap    string `json:"gap,omitempty"` // why frames are missing here
	PyFile string `json:"py_file,omitempty"`
	PyFunc string `json:"py_func,omitempty"`
	PyLine int32  `json:"py_line,omitempty"`
	IP     string `json:"ip,omitempty"`
	Symbol string `json:"symbol,omitempty"` // with the offset in it
	File   string `json:"file,omitempty"`   // of the code
	Source string `json:"source,omitempty"`
	Line   int32  `json:"line,omitempty"`
	Inline bool   `json:"inline,omitempty"` // inlined into the next frame
}

// WaitLine is a time of a thread without a CPU, of at least 20 us.
type WaitLine struct {
	Type       string       `json:"type"`      // "wait"
	Time       time.Time    `json:"timestamp"` // its start
	PID        uint32       `json:"pid"`
	TID        uint32       `json:"tid"`
	Comm       string       `json:"comm,omitempty"`
	State      string       `json:"state"` // runnable, throttled, blocked
	DurationNS int64        `json:"duration_ns"`
	Op         string       `json:"op,omitempty"` // the call around it
	CPU        uint16       `json:"cpu"`
	Hop        uint8        `json:"hop,omitempty"` // of a thread without traced calls: number of wakers to a thread that makes some
	Reason     string       `json:"reason,omitempty"`
	Syscall    string       `json:"syscall,omitempty"`
	Arg        *uint64      `json:"arg,omitempty"`
	File       string       `json:"file,omitempty"`
	Dev        string       `json:"dev,omitempty"`
	TakenNS    *int64       `json:"taken_ns,omitempty"` // time for which who had the CPU
	Who        *OtherThread `json:"who,omitempty"`      // had the CPU meanwhile, or ended a blocked wait
	IO         bool         `json:"io,omitempty"`
	ByIRQ      bool         `json:"by_irq,omitempty"`
	Idle       bool         `json:"idle,omitempty"`
	Others     bool         `json:"others,omitempty"`
	Moved      bool         `json:"moved,omitempty"`
	Previous   bool         `json:"previous,omitempty"` // one more thread of the same wait: not to be added up
}

// OtherThread is the other thread of a wait.
type OtherThread struct {
	Comm       string `json:"comm"`
	PID        uint32 `json:"pid"`
	TID        uint32 `json:"tid"`
	PPID       uint32 `json:"ppid,omitempty"`
	StartTicks uint32 `json:"start_ticks,omitempty"` // start time, as in /proc/PID/stat
	CgroupID   uint64 `json:"cgroup_id,omitempty"`
}

// ProcessLine is an event of a process.
type ProcessLine struct {
	Type   string    `json:"type"` // "process"
	Time   time.Time `json:"timestamp"`
	Event  string    `json:"event"` // fork, exec, exit, oom-kill, kill
	PID    uint32    `json:"pid"`
	Child  uint32    `json:"child,omitempty"`      // created by a fork
	Sender *uint32   `json:"sender_pid,omitempty"` // of a fatal signal; 0: the kernel
	Signal string    `json:"signal,omitempty"`
	Comm   string    `json:"comm,omitempty"` // of a fatal signal: the sender's
}

// FunctionLine is the GPU function behind a handle in the arguments of a process's launches.
type FunctionLine struct {
	Type     string `json:"type"` // "function"
	PID      uint32 `json:"pid"`
	Handle   string `json:"handle"`
	SinceNS  int64  `json:"since_ns,omitempty"` // absent: from the first call that was seen
	Why      string `json:"why,omitempty"`      // reason of a missing name
	Symbol   string `json:"symbol,omitempty"`   // linker name
	Function string `json:"function,omitempty"` // source name
}
