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

// Verified is the output of ingero db verify: the result of checking a whole database.
type Verified struct {
	Segments  int      `json:"segments"`
	Frames    int      `json:"frames"`
	Calls     uint64   `json:"calls"`
	Waits     uint64   `json:"waits"`
	Bytes     int64    `json:"bytes"`
	Lost      uint64   `json:"lost_before"` // calls that an earlier repair marked as lost
	Damage    []Damage `json:"damage"`
	Torn      []Damage `json:"torn"`                  // incomplete frames at the ends of segments, after a crash; everything before them is intact
	Leftovers []string `json:"left_over"`             // unneeded files that a killed process left
	Bad       []string `json:"kept_by_repair"`        // damaged files that repairs have replaced
	Newer     []string `json:"newer"`                 // segments that a newer ingero wrote, in part or completely
	Unsealed  int      `json:"unsealed"`              // number of segments without an index
	Recording bool     `json:"recording"`             // a process is writing to the database
	Seconds   int      `json:"seconds_compared"`      // number of seconds whose calls were compared with their rollups
	Unchecked []string `json:"sessions_not_compared"` // sessions that lack calls for this comparison
}

// Damage describes a damaged part of a database's file.
type Damage struct {
	File  string `json:"file"`
	At    int64  `json:"byte"`  // offset
	Bytes int64  `json:"bytes"` // number of unreadable bytes
	Calls int64  `json:"calls"` // number of lost calls; -1: unknown
	What  string `json:"what"`
}

// Repaired is the output of ingero db repair. If all fields are empty, there was nothing to do.
type Repaired struct {
	Removed  []string `json:"removed"`             // unneeded files
	Cut      []Damage `json:"cut"`                 // incomplete frames at the ends of segments, after a crash
	Lost     []Damage `json:"lost"`                // unreadable parts of damaged segments; the readable parts replace these segments
	Indexed  []string `json:"indexed"`             // segments with a new index
	Kept     []string `json:"kept"`                // the damaged files, under their new names
	Sealed   int      `json:"sealed"`              // number of sealed segments that killed writers left
	SQLite   string   `json:"sqlite"`              // why the SQLite file was rebuilt; "": it was not
	Restored []string `json:"restored"`            // sessions whose rows come from their segments
	Copied   []string `json:"copied"`              // sessions whose rows come from the damaged SQLite file
	Without  []string `json:"without_first_calls"` // restored sessions whose first calls had been pruned: their sums by time begin with the remaining calls
}

// Nothing reports whether there was nothing to do.
func (r *Repaired) Nothing() bool {
	return len(r.Removed)+len(r.Cut)+len(r.Lost)+len(r.Indexed)+len(r.Kept)+r.Sealed+len(r.Restored)+len(r.Copied) == 0 && r.SQLite == ""
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
