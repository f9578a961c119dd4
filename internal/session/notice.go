package session

import "time"

// Notice is an event to show to a waiting user.
type Notice struct {
	Kind    NoticeKind
	PID     uint32
	Comm    string
	Library string // NoticeAttached: its path
	Probes  int    // NoticeAttached
	// AttachDelay is the time from the mapping until the probes were attached; 0: unknown.
	AttachDelay time.Duration // NoticeAttached
	Err         error         // NoticeFailed
	Reason      string        // NoticeCounted, NoticePython: "CPython 3.12"
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// The kinds.
const (
	NoticeTracing  NoticeKind = iota + 1 // a process is now traced
	NoticeAttached                       // probes are attached to a library
	NoticeEnded                          // a traced process has ended
	NoticeFailed                         // a library could not be probed
	NoticeCounted                        // a feature was shed or restored
	NoticePython                         // stacks of a process now have Python frames
)
