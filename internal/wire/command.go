package wire

import "time"

// Setting is one line of config show.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	From   string `json:"from"`   // "default", "/etc/ingero/ingero.yaml:3", "INGERO_DB", "--db"
	Reload bool   `json:"reload"` // a running trace applies a new value at SIGHUP
}

// Check is the output of ingero check: the result of all checks, in order.
type Check struct {
	PID   uint32      `json:"pid,omitempty"` // for the report on one process
	Comm  string      `json:"comm,omitempty"`
	Ready bool        `json:"ready"` // no line failed
	Tried bool        `json:"tried"` // privileges sufficed to test the kernel's features
	Lines []CheckLine `json:"lines"`
}

// CheckLine is the result of one check.
type CheckLine struct {
	ID    string      `json:"id"` // short, stable identifier
	Name  string      `json:"name"`
	State string      `json:"state"`          // ok, lacking, failed
	Value string      `json:"value"`          // what was found
	Note  string      `json:"note,omitempty"` // its meaning or cost
	Do    string      `json:"do,omitempty"`   // remedy
	Items []CheckItem `json:"items,omitempty"`
	Needs []CheckNeed `json:"needs,omitempty"` // capability that each feature needs

	// For a library that a process has loaded.
	BuildID  string   `json:"build_id,omitempty"`
	Versions []string `json:"versions,omitempty"` // symbol versions
	Probes   int      `json:"probes,omitempty"`   // number of traced functions
	Lacks    []string `json:"lacks,omitempty"`    // catalog functions that the library lacks
	Unprobed []string `json:"unprobed,omitempty"` // API functions of the library that are not traced
}

// CheckItem is one of several findings of a line: a process or a library.
type CheckItem struct {
	PID  uint32 `json:"pid,omitempty"`
	Name string `json:"name"`
	Path string `json:"path,omitempty"`
	MiB  int64  `json:"mib,omitempty"`
}

// CheckNeed is a feature and the capability that it needs on this kernel.
type CheckNeed struct {
	Feature    string `json:"feature"`
	Capability string `json:"capability"`
	Has        bool   `json:"has"`
	Must       bool   `json:"must"`              // nothing is traced without it
	Without    string `json:"without"`           // what is missing without it
	Instead    string `json:"instead,omitempty"` // alternative capability
}

// DatabaseInfo is the output of ingero db info.
type DatabaseInfo struct {
	Database
	From     *time.Time      `json:"calls_from,omitempty"`     // start of the first kept call
	PerCall  float64         `json:"bytes_per_call,omitempty"` // segments only
	Sessions []RecordingInfo `json:"sessions"`
}

// Database describes a database's content by part.
type Database struct {
	Path      string       `json:"path"`
	Schema    int          `json:"schema"`
	Recording bool         `json:"recording"`
	Bytes     int64        `json:"bytes"`
	SQLite    int64        `json:"sqlite_bytes"`
	Unused    int64        `json:"sqlite_unused_bytes"` // SQLite's free pages, which vacuuming returns
	WAL       int64        `json:"wal_bytes"`           // write-ahead log and its index
	Sealed    FileGroup    `json:"sealed"`
	Hot       FileGroup    `json:"hot"` // segments being written, or left by a crash
	Other     FileGroup    `json:"other"`
	Tiers     []RollupTier `json:"rollups"`
	Calls     uint64       `json:"calls_kept"`
}

// FileGroup describes files of one kind.
type FileGroup struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// RollupTier describes the rollups of one length.
type RollupTier struct {
	Seconds int64     `json:"seconds"`
	Rows    int64     `json:"rows"`
	From    time.Time `json:"from,omitzero"` // start of the first window
	To      time.Time `json:"to,omitzero"`   // end of the last window
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

// Demo is what ingero demo finds in one of several scenarios.
type Demo struct {
	Report   *Report `json:"report"`
	Scenario string  `json:"scenario"`
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
