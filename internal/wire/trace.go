package wire

import "time"

// Status is the output of ingero status.
type Status struct {
	Running  bool        `json:"running"`
	Healthy  bool        `json:"healthy"`
	Problems []string    `json:"problems,omitempty"`
	Trace    *TraceState `json:"trace"` // null: none, or not readable
}

// Holder is the process that traces the machine: it holds the lock.
type Holder struct {
	PID     int       `json:"pid"`
	UID     uint32    `json:"uid"`
	Since   time.Time `json:"since"`   // zero if unknown
	Command string    `json:"command"` // arguments, joined
	DB      string    `json:"db,omitempty"`
}

// TraceState is the state that a trace publishes once a second.
type TraceState struct {
	Holder
	Updated   time.Time         `json:"updated"`
	Processes []TracedProcess   `json:"processes"`
	Libraries int               `json:"libraries"` // traced shared objects
	Probes    int               `json:"probes"`    // functions with probes
	Calls     uint64            `json:"calls"`     // exact, from the kernel
	Records   uint64            `json:"records"`   // read from the ring
	Drops     map[string]uint64 `json:"drops,omitempty"`
	LastLoss  time.Time         `json:"last_loss"` // last growth of Drops; zero: never
	CPU       time.Duration     `json:"cpu_ns"`    // the agent's, since its start
	RSS       int64             `json:"rss_bytes"` // the agent's, now
	DBBytes   int64             `json:"db_bytes"`  // all files of the database
	// Overhead is the cost of tracing, as text; empty: it has no limit. Shed are the steps taken to
	// stay within the limit.
	Overhead string   `json:"overhead,omitempty"`
	Shed     []string `json:"shed,omitempty"`
	// Open are the calls that have not returned for a while, as of Updated: longest first, and limited
	// in number. MoreOpen counts the others.
	Open     []PendingCall `json:"open,omitempty"`
	MoreOpen int           `json:"more_open,omitempty"`
	// RollCalls are the collectives with missing ranks.
	RollCalls []PendingCollective `json:"roll_calls,omitempty"`
	// Unranked is the number of processes with communicators from before the trace, whose ranks are
	// unknown.
	Unranked int `json:"unranked,omitempty"`
	// Problems are what keeps the trace from being complete, as text.
	Problems []string `json:"problems,omitempty"`
	// Exports are the exports' destinations and progress.
	Exports []Export `json:"exports,omitempty"`
}

// TracedProcess is a traced process.
type TracedProcess struct {
	PID  uint32 `json:"pid"`
	Comm string `json:"comm"`
	// Mapped is when it loaded its first CUDA library, Attached when that library had its probes:
	// calls in between were not traced.
	Mapped   time.Time `json:"mapped,omitzero"`
	Attached time.Time `json:"attached,omitzero"`
	// Counted reports that its launches are counted and not timed, see --max-overhead.
	Counted bool `json:"launches_counted,omitempty"`
}

// Export is the state of one kind of export.
type Export struct {
	Name    string            `json:"name"`           // "otlp traces"
	To      string            `json:"to"`             // without secrets
	Sent    uint64            `json:"sent"`           // accepted items
	Lost    map[string]uint64 `json:"lost,omitempty"` // lost items, by reason
	Problem string            `json:"problem,omitempty"`
}

// PendingCall is a call that has not returned, with its thread's state.
type PendingCall struct {
	PID    uint32    `json:"pid"`
	TID    uint32    `json:"tid"`
	Comm   string    `json:"comm"`             // process name
	Thread string    `json:"thread,omitempty"` // thread name, if different
	Op     string    `json:"op"`
	Inner  string    `json:"inner,omitempty"` // innermost traced call in it
	Since  time.Time `json:"since"`
	// State is on-cpu, runnable, throttled or blocked, since StateSince; a blocked thread has a
	// Reason and a Syscall. FD is the file descriptor in that system call, -1: none; File and Dev
	// are the kind of that file and its device.
	State      string    `json:"state"`
	StateSince time.Time `json:"state_since,omitzero"`
	Reason     string    `json:"reason,omitempty"`
	Syscall    string    `json:"syscall,omitempty"`
	FD         int       `json:"fd"`
	File       string    `json:"file,omitempty"`
	Dev        uint32    `json:"dev,omitempty"` // major << 20 | minor
	CPU        uint16    `json:"cpu"`           // current or last CPU
}

// Collective is a collective that some ranks of a communicator have entered.
type Collective struct {
	Comm    string        `json:"comm"`
	Ranks   uint32        `json:"ranks,omitempty"` // of the communicator, on all machines
	Seq     uint64        `json:"sequence"`        // the collective's number, from 1
	Op      string        `json:"op,omitempty"`
	Since   time.Time     `json:"since"` // entry of the first rank
	Text    string        `json:"text"`  // missing and waiting ranks, as text
	Entered []EnteredRank `json:"entered"`
}

// EnteredRank is a rank that has entered a collective.
type EnteredRank struct {
	Rank int32  `json:"rank"` // below 0: unknown
	PID  uint32 `json:"pid"`
}

// PendingCollective is a collective with missing ranks, as a trace publishes it.
type PendingCollective struct {
	Collective
	Missing []PendingRank `json:"missing"`
}

// PendingRank is a rank that has not entered a collective. If its thread is alive, the call is what
// it does instead; its Op is empty between calls.
type PendingRank struct {
	Rank  int32 `json:"rank"`
	Lives bool  `json:"lives"`
	PendingCall
	At      string `json:"at,omitempty"` // program location of the call, or of its last collective
	Instead string `json:"instead"`      // as text
}

// Stuck is the output of ingero stuck.
type Stuck struct {
	Updated time.Time   `json:"updated"` // time of the published state
	MinNS   int64       `json:"min_ns"`
	Calls   []StuckCall `json:"calls"` // longest first
	More    int         `json:"more,omitempty"`
	// RollCalls are the collectives with missing ranks.
	RollCalls []StuckCollective `json:"roll_calls,omitempty"`
	// Problems are reasons why the list may be wrong.
	Problems []string `json:"problems,omitempty"`
}

// StuckCall is a call that has not returned, with what ingero stuck looks up.
type StuckCall struct {
	PendingCall
	OpenNS  int64      `json:"open_ns"`            // duration until Updated
	StateNS int64      `json:"state_ns,omitempty"` // duration of the state until Updated
	Path    string     `json:"path,omitempty"`     // path of the file behind FD
	OnCPU   *CPUHolder `json:"cpu_holder,omitempty"`
}

// CPUHolder is the thread that runs on a CPU.
type CPUHolder struct {
	PID  uint32 `json:"pid"`
	TID  uint32 `json:"tid"`
	Comm string `json:"comm"`
}

// StuckCollective is a collective with missing ranks, and how long its ranks have waited.
type StuckCollective struct {
	Collective
	WaitNS  int64       `json:"wait_ns"` // wait of the first rank until Updated
	Missing []StuckRank `json:"missing"`
}

// StuckRank is a missing rank.
type StuckRank struct {
	Rank    int32     `json:"rank"`
	Lives   bool      `json:"lives"`
	Call    StuckCall `json:"does"` // of a living rank; op is empty between calls
	At      string    `json:"at,omitempty"`
	Instead string    `json:"instead"`
}
