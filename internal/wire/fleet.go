package wire

import (
	"encoding/json"
	"time"
)

// FleetReport is the report of several nodes.
type FleetReport struct {
	Nodes         []Node         `json:"nodes"` // queried nodes
	Reports       []NodeReport   `json:"reports"`
	Communicators []Communicator `json:"communicators"`
	Notes         []string       `json:"notes"`
}

// NodeReport is the report of one node.
type NodeReport struct {
	Node   string          `json:"node"`
	Report json.RawMessage `json:"report"` // output of explain --json on that node
}

// Communicator is an NCCL communicator whose ranks are on several nodes.
type Communicator struct {
	ID       string       `json:"id"`
	Ranks    uint32       `json:"ranks"`
	Seen     []CommMember `json:"seen"`
	Unseen   []int32      `json:"unseen"` // ranks that no node reported
	Compared int          `json:"compared"`
	Absent   []AbsentRank `json:"absent"`
	Late     []LateRank   `json:"late"`
}

// CommMember is a rank of a communicator, with its node.
type CommMember struct {
	Rank int32  `json:"rank"`
	Node string `json:"node"`
	PID  uint32 `json:"pid"`
	Comm string `json:"comm"`
	Done uint64 `json:"entered"`
}

// AbsentRank is a rank that has not entered a collective.
type AbsentRank struct {
	CommMember
	Seq     uint64    `json:"sequence"`
	Op      string    `json:"op,omitempty"`
	Since   time.Time `json:"since"`
	ForNS   int64     `json:"for_ns"`
	Entered []int32   `json:"ranks_entered"`
}

// LateRank is a rank that was the last to enter collectives.
type LateRank struct {
	CommMember
	Times    int   `json:"times"`
	WaitedNS int64 `json:"waited_ns"`
	WithinNS int64 `json:"within_ns"`
}
