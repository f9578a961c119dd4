package session

import (
	"time"

	"ingero/internal/probes"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// kernel is what [Live] reads of the kernel's programs while a session runs. A recorder
// stands before the real one, and a [Player] has one of its own.
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

// deck is a raw tape that is recorded or played. All its methods are for the goroutine
// of the session, but for copied.
type deck interface {
	// plays tells which of the two it is.
	plays() bool
	// begin begins a section: a poll, a tick, the end.
	begin(k tape.Kind, at time.Time) error
	// answer has v filled by read and notes it, or fills it from the tape. It tells
	// whether v was filled.
	answer(k tape.Kind, v any, read func()) bool
	// copied returns a copy of a record, as it goes to the tape.
	copied(record []byte) []byte
	// lives notes records of the lives of processes, or hands over those of the tape.
	lives(heard [][]byte, take func(record []byte))
	// clock returns the clock of the session.
	clock(c Clock) Clock
	close() error
}

// ask fills v by read, unless it comes from a tape.
func ask(s deck, k tape.Kind, v any, read func()) {
	if s == nil {
		read()
		return
	}
	s.answer(k, v, read)
}

// playing tells whether a tape is played: no process that it tells of is there to be asked.
func playing(s deck) bool { return s != nil && s.plays() }

// beginSection begins a section of the tape, if there is one.
func beginSection(s deck, k tape.Kind, at time.Time) error {
	if s == nil {
		return nil
	}
	return s.begin(k, at)
}

// tables is what user space knows at a tick.
type tables struct {
	Processes, Others []tick.Process
	Libraries         []tick.Library
	HostProbes        int
	Reports           []tick.Report
	Drops             []tick.Drop
	GPUs              []tick.GPU
	Pods              []tick.Pod
}
