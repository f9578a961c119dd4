package session

import (
	"errors"
	"slices"
	"sync"
	"time"

	"ingero/internal/decode"
	"ingero/internal/native"
	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/tick"
	"ingero/internal/unwind"
	"ingero/pkg/events"
)

const (
	codesBytes = 32 << 20        // bound on the cache of Python code objects
	lateStacks = 5 * time.Second // how long after its end stacks of a process can still be named
)

// framer names stacks: native frames by address and Python frames by code object, merged in order.
// Its methods are for one goroutine, except seen and know.
type framer struct {
	fs     proc.FS
	clock  decode.Clock
	mem    *memories
	native *native.Symbolizer
	codes  *python.Codes
	lives  map[uint32]life
	users  map[uint32]*userWalk // processes whose Python stacks are walked from user space

	mu   sync.Mutex
	news []finding // findings not yet processed
}

// life holds the times at which a process changed, in Unix ns; 0: never.
type life struct {
	began int64 // start of the known program; older stacks are another program's
	learn int64 // when the mappings were read
	found int64 // when the search for the interpreter began
	over  int64 // exit or exec; stacks from before may still arrive
}

// finding is what was found out about a process: its mappings or its interpreter.
type finding struct {
	pid     uint32
	at      int64 // when the process was read, in Unix ns
	code    []proc.Mapping
	process *python.Process // nil: the finding is code
}

func newFramer(mem *memories, clock decode.Clock) *framer {
	return &framer{fs: mem.fs, clock: clock, mem: mem, native: native.New(mem.fs, native.Limits{}, nil),
		codes: python.NewCodes(codesBytes, mem.open), lives: map[uint32]life{}, users: map[uint32]*userWalk{}}
}

// lost handles lost events: mappings are read again when needed. Interpreters stay known, since nobody
// reports them again, and have a new epoch in a new program.
func (f *framer) lost() {
	_ = f.native.Close()
	f.native = native.New(f.fs, native.Limits{}, nil)
	lives := f.lives
	f.lives = map[uint32]life{}
	for _, pid := range f.codes.Processes() {
		l := lives[pid]
		l.learn = 0
		if _, err := f.fs.Process(pid); l.over == 0 && errors.Is(err, proc.ErrExited) {
			l.over = f.clock.Now()
		}
		if l != (life{}) {
			f.lives[pid] = l
		}
	}
}

// seen reads the mappings of a process while it is alive. It is safe for concurrent use.
func (f *framer) seen(pid uint32) {
	at := f.clock.Now()
	if code, err := f.fs.Code(pid, time.Time{}); err == nil {
		f.publish(finding{pid: pid, at: at, code: code})
	}
}

// setInterpreter records the interpreter of a process. at is when the search for it began. It is safe
// for concurrent use.
func (f *framer) setInterpreter(pid uint32, process *python.Process, at int64) {
	f.publish(finding{pid: pid, at: at, process: process})
}

func (f *framer) publish(x finding) {
	f.mu.Lock()
	f.news = append(f.news, x)
	f.mu.Unlock()
}

// takeFindings processes the new findings.
func (f *framer) takeFindings() {
	f.mu.Lock()
	news := f.news
	f.news = nil
	f.mu.Unlock()
	for _, x := range news {
		l := f.lives[x.pid]
		if l.over != 0 && x.at > l.over {
			l = f.renew(x.pid)
		}
		if x.process == nil {
			l.learn = x.at
			f.native.Learn(x.pid, x.code)
		} else {
			l.found = x.at
			f.codes.Know(x.pid, x.process)
			if x.process.Facts.Epoch == 0 { // the kernel does not walk its stacks
				f.walkFrom(x.pid, x.process)
			}
		}
		f.lives[x.pid] = l
	}
}

// Life implements [Framer]. Facts about the process's earlier program are kept for a while.
func (f *framer) Life(e tick.ProcEvent) {
	f.takeFindings()
	switch e.Kind {
	case 0:
		f.lost()
	case tick.ProcForked:
		f.forgetBefore(e.Peer, e.Time) // another process had the number
		f.forked(e.PID, e.Peer)
	case tick.ProcExeced, tick.ProcExited:
		l := f.lives[e.PID]
		if max(l.learn, l.found) > e.Time { // these facts are the next program's
			f.forgetBefore(e.PID, e.Time)
			return
		}
		if l.over != 0 {
			l = f.renew(e.PID)
		}
		l.over = e.Time
		f.lives[e.PID] = l
	}
}

// Trim implements [Framer].
func (f *framer) Trim() { f.trim(f.clock.Now()) }

func (f *framer) trim(now int64) {
	f.takeFindings()
	for pid, l := range f.lives {
		if l.over != 0 && now-l.over > lateStacks.Nanoseconds() {
			f.forget(pid)
		}
	}
	f.native.Trim()
}

// Close implements [Framer].
func (f *framer) Close() error {
	for _, u := range f.users {
		u.close()
	}
	return f.native.Close()
}

// forget drops all facts about a process.
func (f *framer) forget(pid uint32) {
	delete(f.lives, pid)
	f.native.Forget(pid)
	f.forgetPython(pid)
}

func (f *framer) forgetPython(pid uint32) {
	if u := f.users[pid]; u != nil {
		u.close()
		delete(f.users, pid)
	}
	f.codes.Forget(pid)
}

// forgetBefore drops the facts about a process from before a time, at which its program began.
func (f *framer) forgetBefore(pid uint32, at int64) {
	l := f.lives[pid]
	if l.learn <= at {
		f.native.Forget(pid)
		l.learn = 0
	}
	if l.found <= at {
		f.forgetPython(pid)
		l.found = 0
	}
	l.began, l.over = at, 0
	if f.lives[pid] = l; l.learn+l.found == 0 {
		delete(f.lives, pid)
	}
}

// forked gives a child the facts about its parent that are not known about the child itself.
func (f *framer) forked(parent, child uint32) {
	f.native.Forked(parent, child)
	if f.lives[child].found != 0 {
		return
	}
	f.codes.Fork(parent, child)
	if u := f.users[parent]; u != nil {
		f.walkFrom(child, u.of)
	}
}

// upTo drops the facts about a process's earlier program, if at is after its end.
func (f *framer) upTo(pid uint32, at int64) {
	if l := f.lives[pid]; l.over != 0 && at > l.over {
		f.renew(pid)
	}
}

// renew drops the facts about the program that a process has ended.
func (f *framer) renew(pid uint32) life {
	l := life{began: f.lives[pid].over}
	f.forget(pid)
	f.lives[pid] = l
	return l
}

// Frames implements [Framer].
func (f *framer) Frames(s *tick.RawStack) []events.Frame {
	f.takeFindings()
	f.upTo(s.PID, s.Time)
	for _, record := range s.PyCodes {
		if code, err := python.ParseCodeRecord(record); err == nil {
			f.upTo(code.PID, s.Time)
			f.codes.Learn(code)
		}
	}
	if s.Time < f.lives[s.PID].began {
		return []events.Frame{{Kind: events.FrameGap, Func: "frames of a program that the process has replaced (exec)"}}
	}
	// The first address is the start of the traced function, or where the thread was; all others are
	// callers.
	out := f.native.Resolve(s.PID, s.Time, s.IPs, true)
	if end := unwind.End(s.End); end != unwind.Done && end != unwind.Deep && end != unwind.NotTaken {
		out = append(out, events.Frame{Kind: events.FrameGap, Func: "callers unknown: " + end.String()})
	}
	py, end := make([]python.Frame, len(s.Py)), python.End(s.PyEnd)
	for i, p := range s.Py {
		py[i] = python.Frame{Code: p.Code, Mark: p.Mark, Instr: p.Instr}
	}
	if u := f.users[s.PID]; u != nil && !s.Own { // the thread of an own stack has gone on since
		py, end = u.walk(f.fs, s.PID, s.TID)
	}
	named := f.codes.Resolve(s.PID, s.PyEpoch, py)
	switch end {
	case python.EndOK, python.EndCut, python.EndNotPython, python.EndNoThread:
	default:
		named = append(named, python.PyFrame{Frame: events.Frame{Kind: events.FrameGap, Func: "Python frames unknown: " + end.String()}})
	}
	return python.Merge(out, named, unwind.End(s.End) == unwind.Done)
}

// find returns the mapping that contains an address, nil if there is none.
func find(maps []proc.Mapping, ip uint64) *proc.Mapping {
	n, found := slices.BinarySearchFunc(maps, ip, func(m proc.Mapping, ip uint64) int {
		switch {
		case m.End <= ip:
			return -1
		case m.Start > ip:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &maps[n]
}
