package session

import (
	"time"

	"ingero/internal/decode"
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

// deck returns the raw tape, nil if there is none.
func (l *Live) deck() deck { return l.raw }

// playing tells whether a tape is played: no process that it tells of is there to be asked.
func (l *Live) playing() bool { return l.raw != nil && l.raw.plays() }

// section begins a section of the tape, if there is one.
func (l *Live) section(k tape.Kind, at time.Time) error {
	if l.raw == nil {
		return nil
	}
	return l.raw.begin(k, at)
}

// tapeLives notes the records that pending was made of, or makes it of those of the tape.
// mu is held.
func (l *Live) tapeLives() {
	if l.raw == nil {
		return
	}
	l.raw.lives(l.heard, func(record []byte) {
		e, err := decode.Proc(record, l.clock)
		if err != nil {
			l.malformed.Add(1)
			return
		}
		l.pending = append(l.pending, e)
	})
	l.heard = l.heard[:0]
}

// tapeOver notes that all processes have ended, or tells what the tape says of that.
func (l *Live) tapeOver(over bool) bool {
	l.raw.answer(tape.Over, &over, func() {})
	return over
}

// tables is what user space knows at a tick.
type tables struct {
	Processes, Others []tick.Process
	Libraries         []tick.Library
	Reports           []tick.Report
	Drops             []tick.Drop
	GPUs              []tick.GPU
	Pods              []tick.Pod
}

// tell fills a tick with what user space knows. mu is held.
func (l *Live) tell(t *tick.Tick) {
	var x tables
	ask(l.raw, tape.Tables, &x, func() {
		part := tick.Tick{Time: t.Time}
		l.checkAlive(t.Time)
		l.wheres(&part)
		for _, p := range l.procs {
			part.Processes = append(part.Processes, p.Process)
		}
		for _, lib := range l.order {
			part.Libraries = append(part.Libraries, lib.Library)
		}
		l.reports = append(l.reports, l.pys.news()...)
		part.Reports = append(part.Reports, l.reports...)
		l.tellGPUs(&part)
		x = tables{part.Processes, l.others.list(), part.Libraries, part.Reports, part.Drops, part.GPUs, part.Pods}
	})
	if l.playing() {
		l.adopt(x.Processes)
	}
	t.Processes = append(t.Processes, x.Processes...)
	t.Others = append(t.Others, x.Others...)
	t.Libraries = append(t.Libraries, x.Libraries...)
	t.Reports = append(t.Reports, x.Reports...)
	t.Drops = append(t.Drops, x.Drops...)
	t.GPUs, t.Pods = x.GPUs, x.Pods
}

// adopt makes the table of processes that of a tape. mu is held.
func (l *Live) adopt(processes []tick.Process) {
	listed := map[uint32]bool{}
	for i := range processes {
		p := &processes[i]
		listed[p.PID] = true
		if k := l.procs[p.PID]; k == nil || !k.Started.Equal(p.Started) {
			l.procs[p.PID] = &process{}
		}
		l.procs[p.PID].Process = *p
	}
	for pid := range l.procs {
		if !listed[pid] {
			delete(l.procs, pid)
		}
	}
}
