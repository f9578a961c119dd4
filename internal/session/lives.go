package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/tick"
)

// readLives follows forks, execs and exits until the tracer is closed.
func (l *Live) readLives() {
	for {
		if err := l.tracer.WaitLives(); err != nil {
			if !errors.Is(err, os.ErrClosed) {
				l.Log.Warn("process events are read by the clock alone", "error", err)
			}
			return
		}
		for l.takeLives() {
			l.hurry()
		}
	}
}

// takeLives takes in what was told of the lives of processes so far, and tells whether
// there was anything. What happened before a call that was drained is there by then.
func (l *Live) takeLives() bool {
	l.drainingLives.Lock()
	defer l.drainingLives.Unlock()
	return l.kernel.DrainLives(func(record []byte) {
		if l.raw != nil {
			record = l.raw.copied(record)
		}
		e, err := decode.Proc(record, l.clock)
		if err != nil {
			l.malformed.Add(1)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if e.Kind == decode.Gate {
			l.gates = append(l.gates, e)
			select {
			case l.gate <- struct{}{}:
			default:
			}
			return
		}
		if l.procs[e.PID] != nil || e.Kind == tick.ProcOOM { // not a process of the calibration
			l.live(e)
			l.pending = append(l.pending, e)
			if l.raw != nil {
				l.heard = append(l.heard, record)
			}
		}
	}) > 0
}

// exits are those of processes whose last calls may not have been read yet.
type exits []heldExit

type heldExit struct {
	tick.ProcEvent
	until uint64 // where the ring of calls ended when it was heard of
}

// pass appends to lives those that were heard of now, and the exits whose processes' calls
// have all been read: what is known of a process must not go before them. read and made are
// up to where the ring of calls has been read, and written by the time that they were heard of.
func (x *exits) pass(lives, now []tick.ProcEvent, read, made uint64) []tick.ProcEvent {
	for len(*x) > 0 && (*x)[0].until <= read {
		lives = append(lives, (*x)[0].ProcEvent)
		*x = (*x)[1:]
	}
	for _, e := range now {
		switch {
		case e.Kind == tick.ProcExited && made > read:
			*x = append(*x, heldExit{e, made})
			continue
		case e.Kind == tick.ProcForked && slices.ContainsFunc(*x, func(h heldExit) bool { return h.PID == e.Peer }):
			lives = x.rest(lives) // its number has a new process
		}
		lives = append(lives, e)
	}
	return lives
}

// rest appends to lives all exits that are left.
func (x *exits) rest(lives []tick.ProcEvent) []tick.ProcEvent {
	for _, h := range *x {
		lives = append(lives, h.ProcEvent)
	}
	*x = nil
	return lives
}

// hurry asks for a poll at once.
func (l *Live) hurry() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// readPressure asks for a poll whenever the ring is half full.
func (l *Live) readPressure() {
	for {
		if err := l.tracer.WaitPressure(); err != nil {
			if !errors.Is(err, os.ErrClosed) {
				l.Log.Warn("the ring is read by the clock alone", "error", err)
			}
			return
		}
		l.hurry()
	}
}

// live brings the table of processes up to date. mu is held.
func (l *Live) live(e tick.ProcEvent) {
	switch e.Kind {
	case tick.ProcForked:
		l.unwind.Forked(e.PID, e.Peer)
		l.holders.fork(e.PID, e.Peer)
		p, err := l.fs.Process(e.Peer)
		if err != nil { // it has ended already; its exit follows
			p = proc.Process{PID: e.Peer, PPID: e.PID, Comm: e.Comm, Started: time.Unix(0, e.Time)}
		}
		child := l.know(&p)
		if parent := l.procs[e.PID]; parent != nil && child.Mapped.IsZero() { // it has what its parent had
			child.Mapped, child.Attached = parent.Mapped, parent.Attached
			child.inherit(parent)
		}
		for _, lib := range l.libs {
			if lib.users[e.PID] {
				lib.users[e.Peer] = true
			}
		}
	case tick.ProcExeced:
		p := l.procs[e.PID]
		if p == nil {
			return
		}
		l.unwind.Execed(e.PID)
		l.pys.over(e.PID, false)
		p.Comm = e.Comm
		p.Mapped, p.Attached = time.Time{}, time.Time{} // of the program that it was
		if now, err := l.fs.Process(e.PID); err == nil {
			p.Comm, p.Exe = now.Comm, now.Exe
			p.locate(&now)
		}
		for _, lib := range l.libs {
			delete(lib.users, e.PID)
		}
	case tick.ProcExited:
		l.unwind.Ended(e.PID)
		l.pys.over(e.PID, true)
		l.ended(e.PID, time.Unix(0, e.Time))
	case tick.ProcOOM:
		l.killed(e)
	}
}

// ended notes the end of a process. mu is held.
func (l *Live) ended(pid uint32, at time.Time) {
	p := l.procs[pid]
	if p == nil || !p.Ended.IsZero() {
		return
	}
	p.Ended = at
	if p.aside {
		l.aside--
	} else {
		l.alive--
	}
	for _, lib := range l.libs {
		delete(lib.users, pid)
	}
	l.Notify(Notice{Kind: NoticeEnded, PID: pid, Comm: p.Comm})
}

// openGates opens gates until ctx ends.
func (l *Live) openGates(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.gate:
		}
		l.eachGate(func(e tick.ProcEvent) { l.openGate(e, ctx.Err() == nil) })
	}
}

// eachGate takes the gated processes that stand, one by one.
func (l *Live) eachGate(open func(tick.ProcEvent)) {
	for {
		l.mu.Lock()
		if len(l.gates) == 0 {
			l.mu.Unlock()
			return
		}
		e := l.gates[0]
		l.gates = l.gates[1:]
		l.mu.Unlock()
		open(e)
	}
}

// openGate attaches to what a gated process has just mapped, if that is still wanted, and
// lets it go on.
func (l *Live) openGate(e tick.ProcEvent, wanted bool) {
	defer func() { _ = syscall.Kill(int(e.PID), syscall.SIGCONT) }()
	if err := waitStopped(e.PID, e.TID); err != nil {
		l.Log.Debug("gate", "pid", e.PID, "error", err)
		return
	}
	if !wanted {
		return
	}
	if err := l.enrolPID(e.PID); err != nil {
		l.Log.Debug("gate", "pid", e.PID, "error", err)
	}
	l.lookInside()
}

// waitStopped waits until a thread stands still in a stopped process, which
// takes it the rest of one system call.
func waitStopped(pid, tid uint32) error {
	const patience = 2 * time.Second
	path := fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) && b[i+2] == 'T' {
			return nil
		}
	}
	return fmt.Errorf("thread %d has not stopped", tid)
}

// readMaps attaches to libraries as they are mapped, until ctx ends.
func (l *Live) readMaps(ctx context.Context) {
	for {
		e, err := l.watcher.Read()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, proc.ErrLostMaps):
			if err := l.rescan(ctx); err != nil {
				l.Log.Warn("rescan after lost map events", "error", err)
			}
			continue
		case err != nil:
			l.Log.Warn("map events have stopped", "error", err)
			return
		}
		l.mapped(e)
	}
}

// mapped enrols a process that has just mapped a CUDA library, if it is one of
// ours: a target, or a new one that is selected.
func (l *Live) mapped(e proc.MapEvent) {
	l.mu.Lock()
	known := l.procs[e.PID]
	traced := known != nil && known.Ended.IsZero()
	l.mu.Unlock()
	p, err := l.fs.Process(e.PID)
	if err != nil {
		return
	}
	// A child is a target from its fork on, whether that has been heard of or not.
	if !traced && !l.Select.Wants(&p) && !l.tracer.Traced(e.PID) {
		return
	}
	if p.Libraries, err = l.fs.Libraries(e.PID, l.Names); err != nil || !traced && !proc.UsesCUDA(p.Libraries) {
		return
	}
	l.enrol(&p, mapping{libraryKey{e.Library.Key, e.Library.Lib}, time.Unix(0, l.clock.Wall(uint64(e.Time)))})
}
