package session

import "time"

// Notice is something that a person who waits wants to know.
type Notice struct {
	Kind    NoticeKind
	PID     uint32
	Comm    string
	Library string // NoticeAttached: its path
	Probes  int    // NoticeAttached
	// Late is how long after the mapping the probes were in place; 0: not known.
	Late time.Duration // NoticeAttached
	Err  error         // NoticeFailed
	Why  string        // NoticeCounted, NoticePython: "CPython 3.12"
}

// NoticeKind says what happened.
type NoticeKind uint8

// The kinds.
const (
	NoticeTracing  NoticeKind = iota + 1 // a process is traced from now on
	NoticeAttached                       // a library has its probes
	NoticeEnded                          // a traced process has ended
	NoticeFailed                         // a library could not be probed
	NoticeCounted                        // something is left out to spare processes, or told again
	NoticePython                         // stacks of a process have Python frames from now on
)
