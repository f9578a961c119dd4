package wire

import (
	"encoding/json"
	"time"
)

// Snapshot is the machine's state at one time. Shares are from 0 to 1.
type Snapshot struct {
	Time      time.Time  `json:"time"`
	Node      string     `json:"node"`
	CPU       float64    `json:"cpu"`
	CPUs      int        `json:"cpus"`
	Load      [3]float64 `json:"load"`
	MemTotal  int64      `json:"mem_total_bytes"`
	MemAvail  int64      `json:"mem_available_bytes"`
	SwapTotal int64      `json:"swap_total_bytes"`
	SwapUsed  int64      `json:"swap_used_bytes"`
	Records   uint64     `json:"records"`
	AgentCPU  int64      `json:"agent_cpu_ns"`
	AgentRSS  int64      `json:"agent_rss_bytes"`
}

// Snapshots is the answer of /api/v1/snapshots.
type Snapshots struct {
	Scope
	Every     int        `json:"every"` // 1: all, n: every n-th
	Snapshots []Snapshot `json:"snapshots"`
}

// RecordedProcess is a recorded process.
type RecordedProcess struct {
	Node      string           `json:"node"`
	Session   string           `json:"session"`
	PID       uint32           `json:"pid"`
	PPID      uint32           `json:"ppid"`
	Comm      string           `json:"comm"`
	Exe       string           `json:"exe"`
	Cmdline   string           `json:"cmdline,omitempty"`
	Started   *Millis          `json:"started_ms"` // null: unknown, or still running
	Ended     *Millis          `json:"ended_ms"`
	Cgroup    string           `json:"cgroup"`
	Pod       string           `json:"pod,omitempty"`
	Namespace string           `json:"namespace,omitempty"`
	Container string           `json:"container,omitempty"`
	Job       string           `json:"job,omitempty"`
	Calls     uint64           `json:"calls"`
	CallNS    uint64           `json:"call_ns"`
	Threads   []RecordedThread `json:"threads"` // those with most time in calls recently
}

// RecordedThread is a thread of a recorded process.
type RecordedThread struct {
	TID  uint32 `json:"tid"`
	Comm string `json:"comm"`
}

// Processes is the answer of /api/v1/processes.
type Processes struct {
	Scope
	Procs []RecordedProcess `json:"processes"`
	More  int               `json:"more"`
	Notes []string          `json:"notes"`
}

// Recording is a recording.
type Recording struct {
	ID       string    `json:"id"`
	Node     string    `json:"node"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"` // last known time
	State    string    `json:"state"`
	Problem  string    `json:"problem,omitempty"`
	Version  string    `json:"version"`
	Kernel   string    `json:"kernel"`
	Mode     string    `json:"mode"`
	Target   string    `json:"target"`
	Calls    uint64    `json:"calls"`
	LogBytes int64     `json:"log_bytes"`
	Pruned   bool      `json:"pruned"` // its calls were deleted
	Cut      bool      `json:"cut"`    // its first calls were deleted
	Chains   int64     `json:"chains"`
}

// Recordings is the answer of /api/v1/recordings.
type Recordings struct {
	Node       string      `json:"node"`
	Recordings []Recording `json:"recordings"`
	More       int         `json:"more"`
}

// Communicators is the answer of /api/v1/communicators.
type Communicators struct {
	Node    string   `json:"node"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
}

// Overview summarizes the available data.
type Overview struct {
	Node       string        `json:"node"`
	Version    string        `json:"version"`
	Recording  bool          `json:"recording"` // in progress
	Recordings int           `json:"recordings"`
	Nodes      []string      `json:"nodes"` // machines of the recordings
	From       time.Time     `json:"from"`  // start of the first
	To         time.Time     `json:"to"`    // last known time of the last
	Bytes      int64         `json:"database_bytes"`
	Calls      int64         `json:"calls"` // of all recordings
	Chains     int64         `json:"chains"`
	Snapshot   *Snapshot     `json:"snapshot,omitempty"`  // the last one
	GPUs       []RecordedGPU `json:"gpus"`                // of the latest recording
	Top        *Chain        `json:"top_chain,omitempty"` // the most expensive of the last hour
}

// RecordedGPU is a GPU of a recording.
type RecordedGPU struct {
	Bus   string `json:"bus"`
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	Bytes *int64 `json:"mem_total_bytes"` // null: unknown
}

// Capability reports whether a kind of data exists.
type Capability struct {
	Name      string `json:"name"`
	About     string `json:"about"`
	Available bool   `json:"available"`
	Collected bool   `json:"collected"` // ingero collects it
	Tool      string `json:"tool"`      // the tool that supplies it
}

// Capabilities is the answer of /api/v1/capabilities.
type Capabilities struct {
	Node         string       `json:"node"`
	Recording    string       `json:"recording"` // ID
	Reports      []Limitation `json:"reports"`   // what was not traced, and why
	Capabilities []Capability `json:"capabilities"`
}

// ReportFile is a report's data, in place of a server.
type ReportFile struct {
	Version int                        `json:"version"`
	Made    time.Time                  `json:"made"`
	From    time.Time                  `json:"from"`
	To      time.Time                  `json:"to"`
	Node    string                     `json:"node"`
	Answers map[string]json.RawMessage `json:"answers"`
	Errors  map[string]Refusal         `json:"errors"`
}

// Refusal is the reason why a question has no answer, and what to do.
type Refusal struct {
	Error string `json:"error"`
	Do    string `json:"do,omitempty"`
}
