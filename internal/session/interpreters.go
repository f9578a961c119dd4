package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"ingero/internal/proc"
	"ingero/internal/python"
	"ingero/internal/tick"
)

// An interpreter that runs nothing yet is looked for again, less and less often.
const (
	pythonSoon  = 20 * time.Millisecond
	pythonLate  = 2 * time.Second
	pythonTries = 40
)

// interpreters finds CPython in traced processes and tells the kernel's walker and the
// framer where things are in it. It has a goroutine of its own, since it reads files and
// memory of the processes. Its methods are for any goroutine, but for run.
type interpreters struct {
	find   func(pid uint32) (*python.Process, error)
	kernel pythonKernel // nil: stacks are walked from user space
	know   func(pid uint32, of *python.Process)
	forget func(pid uint32)
	probes bool // find may run copies of interpreters
	report *reporter
	wake   chan struct{}

	mu      sync.Mutex
	procs   map[uint32]*search
	reasons map[string]bool // that were reported
}

// pythonKernel is the kernel's walker of Python stacks.
type pythonKernel interface {
	Python(pid uint32, f python.Facts) (epoch uint32, err error)
	ForgetPython(pid uint32) error
}

// search is the state of a process.
type search struct {
	due   time.Time // when to look; zero: no more
	tries int
	told  bool // the kernel knows its interpreter
	child bool // as its parent's
	// looked is closed once the process was looked into; nil: the kernel has it of its parent.
	looked chan struct{}
	once   sync.Once // closes it
}

func newInterpreters(report *reporter) *interpreters {
	return &interpreters{report: report, wake: make(chan struct{}, 1), procs: map[uint32]*search{}, reasons: map[string]bool{}}
}

// look has a process looked into, unless its interpreter is known.
func (x *interpreters) look(pid uint32) {
	if x == nil {
		return
	}
	x.mu.Lock()
	s := x.procs[pid]
	if s == nil {
		s = &search{looked: make(chan struct{})}
		x.procs[pid] = s
	}
	if !s.told {
		s.due, s.tries = time.Now(), 0
	}
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// ready waits until a process was looked into that stands still, for a while. It need not know
// the process.
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

// forked says that a process was forked, and returns whether its interpreter is known: the kernel
// has it of its parent.
func (x *interpreters) forked(parent, child uint32) bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.procs[parent]; p == nil || !p.told {
		return false
	}
	x.procs[child] = &search{told: true, child: true}
	return true
}

// over says that a process has ended, or runs another program.
func (x *interpreters) over(pid uint32, ended bool) {
	if x == nil {
		return
	}
	x.mu.Lock()
	s := x.procs[pid]
	delete(x.procs, pid)
	x.mu.Unlock()
	x.forget(pid)
	if s == nil || !s.told {
		return
	}
	x.untell(pid)           // the kernel has forgotten it by itself, unless it was told just then
	if !ended && !s.child { // what was told may have been of the new program
		x.look(pid)
	}
}

// run looks into processes until ctx ends.
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

// pass looks into what is due and returns when to come again.
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
		if again := x.one(pid); again > 0 {
			next = min(next, again)
		}
	}
	return next
}

// one looks into a process, and returns when to do so again, 0: not.
func (x *interpreters) one(pid uint32) time.Duration {
	x.mu.Lock()
	s := x.procs[pid]
	x.mu.Unlock()
	if s == nil {
		return 0
	}
	if s.looked != nil {
		defer s.once.Do(func() { close(s.looked) })
	}
	found, err := x.find(pid)
	if err == nil {
		if err = x.tell(pid, &found.Facts); err == nil {
			x.know(pid, found)
			x.report.log.Debug("python", "pid", pid, "version", found.Version, "path", found.Path, "offsets", found.Source)
			x.report.notify(Notice{Kind: NoticePython, PID: pid, Why: "CPython " + found.Version.String()})
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.procs[pid] != s { // it has ended meanwhile
		if err == nil {
			x.untell(pid)
			x.forget(pid)
		}
		return 0
	}
	s.due = time.Time{}
	switch {
	case err == nil:
		s.told = true
	case errors.Is(err, python.ErrNotReady) && s.tries < pythonTries:
		wait := min(pythonSoon<<min(s.tries, 10), pythonLate)
		s.tries++
		s.due = time.Now().Add(wait)
		return wait
	case errors.Is(err, python.ErrNotPython), errors.Is(err, proc.ErrGone):
	default:
		x.report.log.Warn("no Python frames", "pid", pid, "error", err)
		if why := python.Reason(err); !x.reasons[why] { // one process stands for all
			x.reasons[why] = true
			text := "stacks have no Python frames: " + err.Error()
			if errors.Is(err, python.ErrMismatch) && !x.probes {
				text += "; --py-probe may find out where they are"
			}
			x.report.add(tick.Report{Kind: "no-python-frames", Object: why, Why: text})
		}
	}
	return 0
}

// tell tells the kernel of an interpreter.
func (x *interpreters) tell(pid uint32, f *python.Facts) (err error) {
	if x.kernel != nil {
		f.Epoch, err = x.kernel.Python(pid, *f)
	}
	return err
}

// untell takes that back.
func (x *interpreters) untell(pid uint32) {
	if x.kernel == nil {
		return
	}
	if err := x.kernel.ForgetPython(pid); err != nil {
		x.report.log.Debug("forget an interpreter", "pid", pid, "error", err)
	}
}

// any tells whether stacks of some process have Python functions. nil has none.
func (x *interpreters) any() bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range x.procs {
		if p.told {
			return true
		}
	}
	return false
}
