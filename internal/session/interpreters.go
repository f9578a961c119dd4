package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/tick"
)

// Retries for an interpreter that runs nothing yet, at growing intervals.
const (
	pythonSoon  = 20 * time.Millisecond
	pythonLate  = 2 * time.Second
	pythonTries = 40
)

// interpreters finds CPython in traced processes, and passes its offsets to the kernel's walker and
// to the framer. It has its own goroutine, since it reads files and memory of the processes. Its
// methods are safe for concurrent use, except run.
type interpreters struct {
	find   func(pid uint32) (*python.Process, error)
	kernel pythonKernel                                        // nil: stacks are walked from user space
	know   func(pid uint32, process *python.Process, at int64) // at: when the search began, in Unix ns
	forget func(pid uint32)
	probes bool // find may run copies of interpreters
	report *reporter
	clock  decode.Clock
	wake   chan struct{}

	mu      sync.Mutex
	procs   map[uint32]*search
	reasons map[string]bool // reasons already reported
}

// pythonKernel is the kernel's walker of Python stacks.
type pythonKernel interface {
	Python(pid uint32, f python.Facts) (epoch uint32, err error)
	ForgetPython(pid uint32) error
}

// search is the state of the search in one process.
type search struct {
	due    time.Time // time of the next search; zero: none
	tries  int
	loaded bool  // the kernel has its interpreter
	child  bool  // the interpreter is its parent's
	since  int64 // since when the kernel has it, or the search is due, in Unix ns
	// looked is closed after the first search; nil: the kernel copied the parent's interpreter.
	looked chan struct{}
	once   sync.Once // guards the close of looked
}

func newInterpreters(report *reporter, clock decode.Clock) *interpreters {
	return &interpreters{report: report, clock: clock, wake: make(chan struct{}, 1), procs: map[uint32]*search{}, reasons: map[string]bool{}}
}

// look queues a process for a search, unless its interpreter is known.
func (x *interpreters) look(pid uint32) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queue(pid)
}

// queue implements look. mu is held.
func (x *interpreters) queue(pid uint32) {
	s := x.procs[pid]
	if s == nil {
		s = &search{since: x.clock.Now(), looked: make(chan struct{})}
		x.procs[pid] = s
	}
	if !s.loaded {
		s.due, s.tries = time.Now(), 0
	}
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// ready waits until the process, which is stopped, has been searched, at most for while. The
// process may be unknown.
func (x *interpreters) ready(pid uint32, while time.Duration) {
	if x == nil {
		return
	}
	x.mu.Lock()
	s := x.procs[pid]
	x.mu.Unlock()
	if s == nil || s.looked == nil {
		return
	}
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-s.looked:
	case <-timer.C:
	}
}

// forked records a fork, and reports whether the child's interpreter is known or looked for. The
// kernel copies the parent's, if it had it at the time of the fork.
func (x *interpreters) forked(parent, child uint32, at int64) bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.procs[child]; c != nil && c.since >= at { // the child was looked at before this call
		return true
	}
	delete(x.procs, child) // another process had the number
	switch p := x.procs[parent]; {
	case p == nil || !p.loaded && p.due.IsZero():
		return false
	case p.loaded && (x.kernel == nil || p.since < at):
		x.procs[child] = &search{loaded: true, child: true, since: at}
	default:
		x.queue(child)
	}
	return true
}

// ended records that a process has ended, or runs another program.
func (x *interpreters) ended(pid uint32, ended bool) {
	if x == nil {
		return
	}
	x.mu.Lock()
	s := x.procs[pid]
	delete(x.procs, pid)
	x.mu.Unlock()
	x.forget(pid)
	if s == nil || !s.loaded {
		return
	}
	x.remove(pid)           // the kernel has already forgotten it, unless this raced with the search
	if !ended && !s.child { // tell may have passed the new program's interpreter
		x.look(pid)
	}
}

// run searches processes until ctx ends.
func (x *interpreters) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := x.pass(time.Now())
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		case <-timer.C:
		}
	}
}

// pass searches the processes that are due, and returns the time until the next one.
func (x *interpreters) pass(now time.Time) time.Duration {
	next := time.Hour
	x.mu.Lock()
	var due []uint32
	for pid, s := range x.procs {
		switch wait := s.due.Sub(now); {
		case s.due.IsZero():
		case wait <= 0:
			due = append(due, pid)
		default:
			next = min(next, wait)
		}
	}
	x.mu.Unlock()
	for _, pid := range due {
		if again := x.search(pid); again > 0 {
			next = min(next, again)
		}
	}
	return next
}

// search searches a process, and returns the time until the next try, 0 for none.
func (x *interpreters) search(pid uint32) time.Duration {
	x.mu.Lock()
	s := x.procs[pid]
	x.mu.Unlock()
	if s == nil {
		return 0
	}
	if s.looked != nil {
		defer s.once.Do(func() { close(s.looked) })
	}
	began := x.clock.Now()
	found, err := x.find(pid)
	if err == nil {
		if err = x.load(pid, &found.Facts); err == nil {
			x.know(pid, found, began)
			x.report.log.Debug("python", "pid", pid, "version", found.Version, "path", found.Path, "offsets", found.Source)
			x.report.notify(Notice{Kind: NoticePython, PID: pid, Reason: "CPython " + found.Version.String()})
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.procs[pid] != s { // the process has ended meanwhile
		if err == nil {
			x.remove(pid)
			x.forget(pid)
		}
		return 0
	}
	s.due = time.Time{}
	switch {
	case err == nil:
		s.loaded, s.since = true, x.clock.Now()
	case errors.Is(err, python.ErrNotReady) && s.tries < pythonTries:
		wait := min(pythonSoon<<min(s.tries, 10), pythonLate)
		s.tries++
		s.due = time.Now().Add(wait)
		return wait
	case errors.Is(err, python.ErrNotPython), errors.Is(err, proc.ErrExited):
	default:
		x.report.log.Warn("no Python frames", "pid", pid, "error", err)
		if why := python.Reason(err); !x.reasons[why] { // one report for all processes
			x.reasons[why] = true
			text := "stacks have no Python frames: " + err.Error()
			if errors.Is(err, python.ErrMismatch) && !x.probes {
				text += "; --py-probe may find the structures"
			}
			x.report.add(tick.Report{Kind: "no-python-frames", Object: why, Why: text})
		}
	}
	return 0
}

// load passes an interpreter to the kernel.
func (x *interpreters) load(pid uint32, f *python.Facts) (err error) {
	if x.kernel != nil {
		f.Epoch, err = x.kernel.Python(pid, *f)
	}
	return err
}

// remove removes an interpreter from the kernel.
func (x *interpreters) remove(pid uint32) {
	if x.kernel == nil {
		return
	}
	if err := x.kernel.ForgetPython(pid); err != nil {
		x.report.log.Debug("forget an interpreter", "pid", pid, "error", err)
	}
}

// any reports whether a process has a known interpreter. It is false for nil.
func (x *interpreters) any() bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.procs {
		if p.loaded {
			return true
		}
	}
	return false
}
