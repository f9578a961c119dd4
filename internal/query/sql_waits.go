package query

import (
	"hash/maphash"

	"modernc.org/sqlite/vtab"

	"ingero/pkg/events"
)

// waitBatch is a run of waits of one session.
type waitBatch struct {
	session *Session
	waits   []events.Wait
	names   names
}

func (b *waitBatch) count() int { return len(b.waits) }

func (b *waitBatch) at(row, column int) vtab.Value {
	return waitColumns[column].table(b, &b.waits[row])
}

func (b *waitBatch) id(row int, seed maphash.Seed) uint64 {
	return maphash.Comparable(seed, struct {
		session string
		wait    events.Wait
	}{b.session.ID, b.waits[row]})
}

// waitColumn is a column of waits, with its value's function.
type waitColumn = derived[func(b *waitBatch, w *events.Wait) vtab.Value]

// waitsTable has one row per wait and culprit.
var waitsTable = &virtual{
	SQLTable: SQLTable{Name: "waits", Columns: declared(waitColumns),
		About: "Every recorded wait: 20 us or more that a thread of a traced process had no CPU. If several threads took the CPU, the wait has a row for each of them. All rows but the first have again = 1: do not add their durations."},
	equal: []string{"session", "node", "pid", "op"}, ranges: []string{"timestamp"}, exact: []string{"op"},
	scan: scanWaits,
}

// scanWaits yields the matching waits, session by session, oldest first.
func scanWaits(s *statement, a *scanRequest, yield func(batch) bool) error {
	sessions, f, err := s.chosen(a)
	if err != nil {
		return err
	}
	b := &waitBatch{names: names{}}
	flush := func() bool {
		more := len(b.waits) == 0 || yield(b)
		b.waits = b.waits[:0]
		return more
	}
	more := true
	for i := 0; i < len(sessions) && more; i++ {
		b.session, f.Session = &sessions[i], sessions[i].ID
		cover, err := s.r.Waits(s.ctx, f, func(w *events.Wait) bool {
			b.waits = append(b.waits, *w)
			more = len(b.waits) < eventBatchRows || flush()
			return more
		})
		s.note(cover)
		if err != nil && !s.unread(f.Session, err) {
			return err
		}
		more = more && flush()
	}
	return nil
}

// text returns a value, NULL for "".
func text(s string) vtab.Value {
	if s == "" {
		return nil
	}
	return s
}

// number returns a value, NULL for 0.
func number(n int64) vtab.Value {
	if n == 0 {
		return nil
	}
	return n
}

func waitFlag(w *events.Wait, f events.WaitFlags) vtab.Value {
	if w.Flags&f != 0 {
		return int64(1)
	}
	return int64(0)
}

// waitColumns are the columns of waits.
var waitColumns = []waitColumn{
	{SQLColumn{"node", "TEXT", "machine that made the recording"},
		func(b *waitBatch, _ *events.Wait) vtab.Value { return b.session.Node }},
	{SQLColumn{"session", "TEXT", "recording: sessions.uid"},
		func(b *waitBatch, _ *events.Wait) vtab.Value { return b.session.ID }},
	{SQLColumn{"timestamp", "INTEGER", "start, Unix ns"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return w.Start }},
	{SQLColumn{"duration_ns", "INTEGER", "ns"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return w.Duration }},
	{SQLColumn{"pid", "INTEGER", "process of the thread that waited"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return int64(w.PID) }},
	{SQLColumn{"tid", "INTEGER", "thread that waited"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return int64(w.TID) }},
	{SQLColumn{"op", "TEXT", "traced call in which the thread waited; NULL between calls"},
		func(b *waitBatch, w *events.Wait) vtab.Value { return b.names.value(w.Op) }},
	{SQLColumn{"state", "TEXT", "runnable (others had the CPU), throttled (CPU quota used up) or blocked"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return w.State.String() }},
	{SQLColumn{"reason", "TEXT", "for a blocked thread: lock, poll, sleep, pipe, socket, disk, file, page-fault, gpu-driver and others; for a runnable thread: hypervisor if the hypervisor gave the CPU to others; else NULL"},
		func(_ *waitBatch, w *events.Wait) vtab.Value {
			if w.State != events.WaitBlocked && w.Reason == events.ReasonUnknown {
				return nil
			}
			return w.Reason.String()
		}},
	{SQLColumn{"syscall", "TEXT", "system call in which the thread waited; NULL if none"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return text(w.Syscall.String()) }},
	{SQLColumn{"file", "TEXT", "kind of file that the system call used; NULL if none"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return text(w.File.String()) }},
	{SQLColumn{"taken_ns", "INTEGER", "for a runnable wait: ns in which who_tid had the CPU; else NULL"},
		func(_ *waitBatch, w *events.Wait) vtab.Value {
			if w.State != events.WaitRunnable {
				return nil
			}
			return w.Taken
		}},
	{SQLColumn{"who_pid", "INTEGER", "process that had the CPU or woke the thread; NULL if none"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return number(int64(w.Who.PID)) }},
	{SQLColumn{"who_tid", "INTEGER", "thread that had the CPU or woke the thread; NULL if none"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return number(int64(w.Who.TID)) }},
	{SQLColumn{"who_comm", "TEXT", "name of the thread who_tid; NULL if unknown"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return text(w.Who.Name.String()) }},
	{SQLColumn{"cpu", "INTEGER", "CPU on which the thread waited or last ran"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return int64(w.CPU) }},
	{SQLColumn{"io", "INTEGER", "1 if the kernel counted the thread as waiting for a block device"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return waitFlag(w, events.WaitIO) }},
	{SQLColumn{"again", "INTEGER", "1 if the row adds a culprit to the wait in the previous row"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return waitFlag(w, events.WaitPrevious) }},
	{SQLColumn{"moved", "INTEGER", "1 if the wait continued on another CPU, in its own row"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return waitFlag(w, events.WaitMoved) }},
	{SQLColumn{"flags", "INTEGER", "all flags of the record, as bits"},
		func(_ *waitBatch, w *events.Wait) vtab.Value { return int64(w.Flags) }},
}
