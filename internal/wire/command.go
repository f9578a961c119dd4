package wire

import "time"

// Setting is one line of config show.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	From   string `json:"from"`   // "default", "/etc/ingero/ingero.yaml:3", "INGERO_DB", "--db"
	Reload bool   `json:"reload"` // a running trace applies a new value at SIGHUP
}

// RecordingInfo is what db info prints about a recording.
type RecordingInfo struct {
	ID      string    `json:"id"`
	Node    string    `json:"node"`
	State   string    `json:"state"`
	Started time.Time `json:"started"`
	Updated time.Time `json:"updated"`
	Records uint64    `json:"records"`
	Bytes   int64     `json:"segment_bytes"`
}

// CPUHolder is the thread that runs on a CPU.
type CPUHolder struct {
	PID  uint32 `json:"pid"`
	TID  uint32 `json:"tid"`
	Comm string `json:"comm"`
}

// ReplayCheck is the result of replay --check.
type ReplayCheck struct {
	Same     bool              `json:"same"`
	Ticks    int               `json:"ticks"`             // number of compared ticks
	Differ   int               `json:"ticks_that_differ"` // number of ticks that differ
	First    time.Time         `json:"first,omitzero"`    // time of the first that differs
	Chains   int               `json:"chains"`            // number of chains found again
	Chain    []ChainDifference `json:"differences"`
	Recorded string            `json:"recorded_by"`
}

// ChainDifference is the difference between the last states of a chain.
type ChainDifference struct {
	ID       string   `json:"id"`
	Recorded []string `json:"recorded"` // lines only in the recorded state; all if the chain is not found again
	Replayed []string `json:"replayed"`
}

// Silence hides the causes that match it, for a time.
type Silence struct {
	What   string    `json:"what"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
	Who    string    `json:"who,omitempty"`
}
