package wire

import "time"

// RollCall is a collective with missing ranks.
type RollCall struct {
	Comm    string        `json:"comm"`
	Ranks   uint32        `json:"ranks,omitempty"` // of the communicator, on all machines
	Seq     uint64        `json:"sequence"`        // number of the collective, from 1
	Op      string        `json:"op,omitempty"`
	Since   time.Time     `json:"since"`
	WaitNS  int64         `json:"wait_ns"`
	Entered []RankProcess `json:"entered"`
	Missing []MissingRank `json:"missing"`
}

// RankProcess is the process of a rank.
type RankProcess struct {
	Rank *int32 `json:"rank,omitempty"`
	PID  uint32 `json:"pid"`
}

// MissingRank is a rank that has not entered a collective, and what it does instead.
type MissingRank struct {
	RankProcess
	Comm    string       `json:"comm,omitempty"`
	Entered uint64       `json:"entered"` // collectives
	Last    time.Time    `json:"last,omitzero"`
	LastOp  string       `json:"last_op,omitempty"`
	State   string       `json:"state"` // of its communicator
	Ended   time.Time    `json:"ended,omitzero"`
	How     string       `json:"how,omitempty"`    // exit, kill, oom-kill, exec
	Signal  string       `json:"signal,omitempty"` // how: kill
	Sender  *uint32      `json:"sender_pid,omitempty"`
	SentBy  string       `json:"sender,omitempty"`
	TID     uint32       `json:"tid,omitempty"`
	Open    *OpenCall    `json:"open,omitempty"`
	Now     *ThreadState `json:"now,omitempty"`
	At      string       `json:"at,omitempty"`
	Instead string       `json:"instead"` // in words
}
