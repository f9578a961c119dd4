package session

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/tick"
)

// targets is the table of traced processes. Its methods may be called from any goroutine.
type targets struct {
	fs       proc.FS
	report   *reporter
	programs *programs // nil until start
	pods     Pods      // nil: they are not known
	gated    bool      // processes stand still until what they map has probes

	mu      sync.Mutex // held while /proc is read and programs are asked
	procs   map[uint32]*process
	alive   int               // processes that live, but for those that stand aside
	aside   int               // those
	ends    []uint32          // processes that have ended after making calls, oldest first
	victims map[uint32]string // cgroups of processes killed for want of memory
}

type process struct {
	tick.Process
	start   uint64    // its StartTicks; 0: not known
	asked   bool      // what it was started with has been asked for
	traced  time.Time // since when, on its own account: zero if it was born to a traced process
	noted   time.Time // when it was last noted that it maps a library
	aside   bool      // it was there before the trace, is related to whom that is for, and uses no CUDA: its end is not waited for
	told    bool      // a tick has told of its end
	counted bool      // its counts have been read since that tick
	// entryOnly: a return probe would harm it.
	entryOnly bool
}

func newTargets(report *reporter, o *LiveOptions) *targets {
	return &targets{report: report, pods: o.Pods, gated: o.Gated != 0, procs: map[uint32]*process{}, victims: map[uint32]string{}}
}

// start begins to read what processes were started with.
func (t *targets) start(cmdline redact.Mode) { t.programs = newPrograms(t.fs.Program, cmdline) }

// close ends that.
func (t *targets) close() {
	if t.programs != nil {
		t.programs.stop()
	}
}

// over tells whether a process has ended since it was read, which is a little before it
// comes here: it must not come to life again. A later one may have its number, but began
// at another tick; where that is not known, as of one that had ended when its fork was
// heard of, it began after the end.
func (t *targets) over(p *proc.Process) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.procs[p.PID]
	if k == nil || k.Ended.IsZero() {
		return false
	}
	return k.start == p.StartTicks || k.start == 0 && !p.Started.After(k.Ended)
}

// known tells whether a process is in the table.
func (t *targets) known(pid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.procs[pid] != nil
}

// lives tells whether a process is in the table and has not ended.
func (t *targets) lives(pid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.living(pid) != nil
}

// living returns a process that has not ended. mu is held.
func (t *targets) living(pid uint32) *process {
	if p := t.procs[pid]; p != nil && p.Ended.IsZero() {
		return p
	}
	return nil
}

// count returns how many processes live, and how many of them stand aside.
func (t *targets) count() (living, aside int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.alive + t.aside, t.aside
}

// admit adds a process. since is when it began to be traced, zero if it was born to a traced process.
func (t *targets) admit(p *proc.Process, entryOnly bool, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.know(p)
	k.entryOnly = entryOnly
	if !since.IsZero() {
		k.traced = since
	}
}

// know adds a process to the table, unless it is there, and returns it: a fork
// and the child's first mapping are told by different ways, in any order. mu is
// held.
func (t *targets) know(p *proc.Process) *process {
	if k := t.living(p.PID); k != nil {
		return k
	}
	k := &process{Process: describe(p)}
	k.locate(p)
	t.procs[p.PID] = k
	t.alive++
	return k
}

// standAside has a process not be waited for.
func (t *targets) standAside(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.living(pid); k != nil {
		k.aside = true
		t.alive, t.aside = t.alive-1, t.aside+1
	}
}

// join has a process that stood aside, and was found to use CUDA, be waited for.
func (t *targets) join(p *proc.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.living(p.PID)
	if k == nil || !k.aside || !proc.UsesCUDA(p.Libraries) {
		return
	}
	k.aside = false
	t.alive, t.aside = t.alive+1, t.aside-1
	t.report.notify(Notice{Kind: NoticeTracing, PID: p.PID, Comm: p.Comm})
}

// forked adds the child of a traced process. It has what its parent had.
func (t *targets) forked(e *tick.ProcEvent) {
	p, err := t.fs.Process(e.Peer)
	if err != nil { // it has ended already; its exit follows
		p = proc.Process{PID: e.Peer, PPID: e.PID, Comm: e.Comm, Started: time.Unix(0, e.Time)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	child := t.know(&p)
	if parent := t.procs[e.PID]; parent != nil && child.noted.IsZero() {
		child.Mapped, child.Attached = parent.Mapped, parent.Attached
		child.inherit(parent)
	}
}

// execed notes that a process runs another program.
func (t *targets) execed(e *tick.ProcEvent) {
	now, err := t.fs.Process(e.PID)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.procs[e.PID]
	if p == nil {
		return
	}
	p.Comm = e.Comm
	if p.noted.Before(time.Unix(0, e.Time)) { // else they are of what it runs now
		p.Mapped, p.Attached = time.Time{}, time.Time{}
	}
	if err == nil {
		p.Comm, p.Exe = now.Comm, now.Exe
		p.locate(&now)
	}
}

// ended notes the end of a process.
func (t *targets) ended(pid uint32, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.living(pid); p != nil {
		t.end(p, at)
	}
}

// end notes the end of a process that lives. mu is held.
func (t *targets) end(p *process, at time.Time) {
	p.Ended = at
	if p.aside {
		t.aside--
	} else {
		t.alive--
	}
	t.report.notify(Notice{Kind: NoticeEnded, PID: p.PID, Comm: p.Comm})
}

// checkAlive notes the end of processes whose exit was not heard of, and returns them.
func (t *targets) checkAlive(now time.Time) (ended []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, p := range t.procs {
		if p.Ended.IsZero() && errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH) {
			t.end(p, now)
			ended = append(ended, pid)
		}
	}
	return ended
}

// lateAttach is from when on it is told that a library's first calls were not seen
// that a process mapped after its first.
const lateAttach = 100 * time.Millisecond

// mapped notes that a process maps a library: since when, if that is known, and since when its
// probes are in place: seen. The time in which its calls were not seen lies between Mapped and
// Attached; libraries that are mapped within it make it longer. It tells whether the process lives.
func (t *targets) mapped(pid uint32, path string, seen, since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.procs[pid]
	if p == nil {
		return false
	}
	p.noted = time.Now()
	if p.traced.After(seen) {
		seen = p.traced
	}
	switch {
	case t.gated: // it stood still in between
		if p.Mapped.IsZero() {
			p.Mapped, p.Attached = seen, seen
		}
	case p.Attached.IsZero() || p.Mapped.IsZero() && !since.IsZero() && since.Before(p.Attached):
		p.Mapped = since
		if since.After(seen) { // others mapped it before, so nothing was missed
			seen = since
		}
		if seen.After(p.Attached) {
			p.Attached = seen
		}
	case since.IsZero():
	case !since.After(p.Attached):
		if seen.After(p.Attached) {
			p.Attached = seen
		}
	case seen.Sub(since) >= lateAttach:
		t.report.add(tick.Report{Kind: "late-attach", Object: fmt.Sprintf("%s (%d)", p.Comm, pid),
			Why: fmt.Sprintf("calls into %s in the %s after it was loaded were not seen", path, seen.Sub(since).Round(time.Millisecond))})
	}
	return p.Ended.IsZero()
}

// returns tells whether a process lives, and whether the returns of its calls are watched.
func (t *targets) returns(pid uint32) (lives, watched bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.living(pid)
	return p != nil, p != nil && !p.entryOnly
}

// countLaunches notes that launches of these processes are counted and not timed, those of all
// others timed. It returns the processes for which that is new, with true if theirs are counted.
func (t *targets) countLaunches(pids []uint32) map[uint32]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := map[uint32]bool{}
	for pid, p := range t.procs {
		if on := slices.Contains(pids, pid); on != p.Counted && p.Ended.IsZero() {
			p.Counted, changed[pid] = on, on
		}
	}
	return changed
}

// countsLaunches tells whether launches of some process are counted and not timed.
func (t *targets) countsLaunches() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.procs {
		if p.Counted && p.Ended.IsZero() {
			return true
		}
	}
	return false
}
