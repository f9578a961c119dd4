package session

import (
	"time"

	"ingero/internal/probes"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// kernel is the part of the kernel's programs that [Live] uses while a session runs. A recorder
// wraps the real one, and a [Player] implements its own.
type kernel interface {
	Rows() []events.Row
	SetSlow(row int, d time.Duration) error
	Drain(limit int, take func(record []byte)) int
	DrainLives(take func(record []byte)) int
	Waiting() (read, made uint64)
	Counts(take func(*probes.CountsRow)) error
	Forget(pids ...uint32) error
	Threads(take func(tid uint32, s *probes.ThreadState, now uint64)) error
	Drops() ([]tick.Drop, error)
	HostSums(take func(k probes.HostKey, s *probes.HostSum)) error
	ForgetHost(k probes.HostKey) (probes.HostSum, error)
	HostReports() []tick.Report
	Pages(take func(pid, order uint32, n uint64)) error
	ForgetPages(pid uint32) error
}

// tapeIO is a raw tape that is recorded or played. Its methods are for the session's goroutine,
// except copied.
type tapeIO interface {
	// plays reports whether the tape is played.
	plays() bool
	// begin starts a section: a poll, a tick, the end.
	begin(k tape.Kind, at time.Time) error
	// answer fills v by read and records it, or fills v from the tape. It reports whether v was
	// filled.
	answer(k tape.Kind, v any, read func()) bool
	// copied returns a copy of a record, in the form for the tape.
	copied(record []byte) []byte
	// lives records process events, or passes on those of the tape.
	lives(records [][]byte, take func(record []byte))
	// clock returns the session's clock.
	clock(c Clock) Clock
	close() error
}

// fill fills v by read, or from a tape.
func fill(s tapeIO, k tape.Kind, v any, read func()) {
	if s == nil {
		read()
		return
	}
	s.answer(k, v, read)
}

// playing reports whether a tape is played: its processes no longer exist.
func playing(s tapeIO) bool { return s != nil && s.plays() }

// beginSection starts a section of the tape, if there is one.
func beginSection(s tapeIO, k tape.Kind, at time.Time) error {
	if s == nil {
		return nil
	}
	return s.begin(k, at)
}

// tables has the facts of user space at a tick.
type tables struct {
	Processes, Others []tick.Process
	Libraries         []tick.Library
	HostProbes        int
	Reports           []tick.Report
	Drops             []tick.Drop
	GPUs              []tick.GPU
	Requests          []tick.Request
	Pods              []tick.Pod
	Inference         []tick.Inference
	Ahead             time.Duration `json:",omitempty"`
}
