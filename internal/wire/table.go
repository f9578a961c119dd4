package wire

import (
	"encoding/json"
	"time"
)

// Node is a machine that was asked to answer a query.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	AheadNS int64  `json:"clock_ahead_ns"` // relative to the clock of the querying machine
	Within  int64  `json:"clock_within_ns"`
	Problem string `json:"problem,omitempty"` // why there is no answer
}

// Operations has the sums of the calls of a window. Times are UTC, durations nanoseconds.
type Operations struct {
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"`
	Database   string    `json:"database"`
	Operations []OpRow   `json:"operations"` // largest time first
	Notes      []string  `json:"notes"`
	Nodes      []Node    `json:"nodes,omitempty"`
}

// OpRow is an operation of a node, a process, or both.
type OpRow struct {
	Node string `json:"node,omitempty"`
	Comm string `json:"comm,omitempty"`
	// Label is the value of the label that the sums are grouped by.
	Label string `json:"label,omitempty"`
	Op
}

// Table has the rows that a statement returned, each an object in the order of the columns. Bytes
// are hexadecimal.
type Table struct {
	Database string            `json:"database"`
	Columns  []string          `json:"columns"`
	Rows     []json.RawMessage `json:"rows"`
	Cut      string            `json:"cut"` // why further rows are missing
	Notes    []string          `json:"notes"`
	Nodes    []Node            `json:"nodes,omitempty"`
}
