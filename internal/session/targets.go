package session

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"ingero/internal/decode"
	"ingero/internal/host"
	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/tick"
)

// targets is the table of traced processes. Its methods are safe for concurrent use.
type targets struct {
	fs       proc.FS
	clock    decode.Clock
	report   *reporter
	programs *programs // nil until start
	pods     Pods      // nil: unknown
	gated    bool      // processes are stopped until the libraries they map have probes
	named    []uint32  // processes selected by number

	mu      sync.Mutex // held during reads of /proc and requests to programs
	procs   map[uint32]*process
	alive   [roles]int        // living processes by role
	used    bool              // some process has mapped a CUDA library
	ends    []uint32          // ended processes that made calls, oldest first
	victims map[uint32]string // objects of tick.HostOOM
	limits  host.Poller       // reads the limits of victims
}

type process struct {
	tick.Process
	start       uint64    // its StartTicks; 0: unknown
	requested   bool      // its command line and environment have been requested
	traced      time.Time // since when; zero if traced from its fork on
	noted       time.Time // when a mapping of a library was last recorded
	role        role      // whether a trace of named processes waits for its end
	fresh       int64     // its fork or exec, in Unix ns, if that made it young; 0: none did
	renamed     bool      // it has another name than at its start or exec
	endReported bool      // a tick has reported its end
	counted     bool      // its counts have been read since that tick
	// entryOnly is set if a return probe would harm the process.
	entryOnly bool
}

// role tells whether a trace of named processes waits for a process's end.
type role uint8

const (
	bystander role = iota // a relative without CUDA that ran before the trace
	young                 // a child without CUDA: awaited for a while, and until some process uses CUDA
	awaited               // named, or maps a CUDA library
	roles
)

// youth is how long after its fork or exec a trace waits for a child without CUDA: about to map CUDA.
const youth = 30 * time.Second

// youngAt reports whether a process is about to map CUDA at a time, possibly.
func (p *process) youngAt(at int64) bool {
	return p.role == young && at-p.fresh < youth.Nanoseconds()
}

func newTargets(clock decode.Clock, report *reporter, o *LiveOptions) *targets {
	named := slices.Clone(o.Select.PIDs)
	if o.Gated != 0 {
		named = append(named, o.Gated)
	}
	return &targets{fs: processFS(clock), clock: clock, report: report, pods: o.Pods, gated: o.Gated != 0, named: named, procs: map[uint32]*process{}, victims: map[uint32]string{}}
}

// start starts reading the command lines and environments of processes.
func (t *targets) start(cmdline redact.Mode) {
	t.programs = newPrograms(t.fs.Program, cmdline)
	t.limits.Begin() // it takes too long while a process is being killed
}

// close stops reading them.
func (t *targets) close() {
	if t.programs != nil {
		t.programs.stop()
	}
}

// hasEnded reports whether a process has ended since it was read, slightly before this call: it must
// not come back to life. A later process may have its number, but has another start time. The start
// is unknown if the process ended before its fork was handled. Then a later process must start
// after the end.
func (t *targets) hasEnded(p *proc.Process) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.procs[p.PID]
	if k == nil || k.Ended.IsZero() {
		return false
	}
	return k.start == p.StartTicks || k.start == 0 && !p.Started.After(k.Ended)
}

// known reports whether a process is in the table.
func (t *targets) known(pid uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.procs[pid] != nil
}

// lives reports whether a process is in the table and has not ended.
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

// any reports whether a process is traced.
func (t *targets) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.alive != [roles]int{}
}

// over reports whether all processes that a trace of named processes waits for have ended. A program
// that a launcher started just before its own end has not mapped CUDA yet. So over waits for children
// that are young now, and for all others too until some process uses CUDA: a helper of the launcher,
// such as nvidia-smi, may use it first.
func (t *targets) over(now int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.alive[awaited] > 0:
		return false
	case t.alive[young] == 0:
		return true
	case !t.used:
		return false
	}
	for _, p := range t.procs {
		if p.Ended.IsZero() && p.youngAt(now) {
			return false
		}
	}
	return true
}

// admit adds a process. since is when it became traced, zero if it was traced from its fork on.
func (t *targets) admit(p *proc.Process, entryOnly bool, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.ensure(p)
	k.entryOnly = entryOnly
	if !since.IsZero() {
		k.traced = since
	}
}

// countOnly records that a process has no return probes any more, unless it has ended.
func (t *targets) countOnly(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.living(pid); k != nil {
		k.entryOnly = true
	}
}

// ensure returns a process of the table, and adds it if needed: a fork and the child's first mapping
// arrive in any order. mu is held.
func (t *targets) ensure(p *proc.Process) *process {
	if k := t.living(p.PID); k != nil {
		return k
	}
	k := &process{Process: describe(p)}
	if slices.Contains(t.named, p.PID) {
		k.role = awaited
		t.report.notify(Notice{Kind: NoticeTracing, PID: p.PID, Comm: p.Comm})
	}
	k.locate(p)
	t.procs[p.PID] = k
	t.alive[k.role]++
	return k
}

// setRole changes the role of a living process, unless it is named. mu is held.
func (t *targets) setRole(k *process, r role) {
	if slices.Contains(t.named, k.PID) {
		return
	}
	t.alive[k.role]--
	k.role = r
	t.alive[r]++
}

// await makes a process awaited that maps a CUDA library.
func (t *targets) await(p *proc.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.living(p.PID)
	if k == nil || !proc.UsesCUDA(p.Libraries) {
		return
	}
	t.used = true
	if k.role != awaited {
		t.setRole(k, awaited)
		t.report.notify(Notice{Kind: NoticeTracing, PID: p.PID, Comm: p.Comm})
	}
}

// forked adds the child of a traced process. It inherits its parent's libraries and place.
func (t *targets) forked(e *tick.ProcEvent) {
	p, err := t.fs.Process(e.Peer)
	if err != nil { // it has ended already; its exit follows
		p = proc.Process{PID: e.Peer, PPID: e.PID, Comm: e.Comm, Started: time.Unix(0, e.Time)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	child, parent := t.ensure(&p), t.procs[e.PID]
	if child.role == bystander {
		t.setRole(child, young)
	}
	if parent == nil {
		return
	}
	// What an old child starts again and again, as a loop in a shell does, prolongs no trace.
	if parent.role == awaited || parent.youngAt(e.Time) {
		child.fresh = e.Time
	}
	if !parent.Attached.IsZero() { // the child maps the parent's libraries
		t.setRole(child, awaited)
	}
	child.entryOnly = child.entryOnly || parent.entryOnly
	if child.noted.IsZero() {
		child.Mapped, child.Attached = parent.Mapped, parent.Attached
		child.inherit(parent)
	}
}

// execed records that a process runs another program.
func (t *targets) execed(e *tick.ProcEvent) {
	now, err := t.fs.Process(e.PID)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.procs[e.PID]
	if p == nil {
		return
	}
	p.Comm = e.Comm
	if p.noted.Before(time.Unix(0, e.Time)) { // otherwise they are its new program's
		p.Mapped, p.Attached = time.Time{}, time.Time{}
		if p.Ended.IsZero() {
			if p.role != young || p.youngAt(e.Time) {
				p.fresh = e.Time
			}
			t.setRole(p, young)
		}
	}
	if err == nil {
		p.Comm, p.Exe, p.renamed = now.Comm, now.Exe, false
		p.locate(&now)
	}
}

// ended records the end of a process.
func (t *targets) ended(pid uint32, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.living(pid); p != nil {
		t.end(p, at)
	}
}

// end records the end of a living process. mu is held.
func (t *targets) end(p *process, at time.Time) {
	p.Ended = at
	t.alive[p.role]--
	t.report.notify(Notice{Kind: NoticeEnded, PID: p.PID, Comm: p.Comm})
}

// maxRenamed bounds the processes whose names are read again at a tick, any of all.
const maxRenamed = 64

// checkAlive records the end of processes whose exit event was lost, and returns them. It takes in the first new name
// of the others: many programs name themselves once they run. Some do so again for each task: each name is a metric series.
func (t *targets) checkAlive(now time.Time) (ended []uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	read := 0
	for pid, p := range t.procs {
		switch {
		case !p.Ended.IsZero():
		case errors.Is(syscall.Kill(int(pid), 0), syscall.ESRCH):
			t.end(p, now)
			ended = append(ended, pid)
		case read < maxRenamed && !p.renamed:
			read++
			if name := t.fs.ThreadName(pid, pid); name != "" && name != p.Comm {
				p.Comm, p.renamed = name, true
			}
		}
	}
	return ended
}

// lateAttach is the least delay of probes that is reported for a library which a process mapped
// after its first.
const lateAttach = 100 * time.Millisecond

// mapped records that a process maps a library: since is when, if known, and seen is when its
// probes were attached. Calls between Mapped and Attached were missed; libraries that are mapped in
// between extend that time. It reports whether the process is alive.
func (t *targets) mapped(pid uint32, path string, seen, since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.procs[pid]
	if p == nil {
		return false
	}
	p.noted = time.Unix(0, t.clock.Now())
	if p.traced.After(seen) {
		seen = p.traced
	}
	if since.After(seen) { // other processes mapped it before, so nothing was missed
		seen = since
	}
	switch {
	case t.gated: // the process was stopped in between
		if p.Mapped.IsZero() {
			p.Mapped, p.Attached = seen, seen
		}
	case p.Attached.IsZero() || !since.IsZero() && since.Before(p.Attached) && (p.Mapped.IsZero() || since.Before(p.Mapped)):
		p.Mapped = since
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
			Why: fmt.Sprintf("calls into %s in the first %s after it was loaded were not seen", path, seen.Sub(since).Round(time.Millisecond))})
	}
	return p.Ended.IsZero()
}

// returns reports whether a process is alive, and whether its calls have return probes.
func (t *targets) returns(pid uint32) (lives, watched bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.living(pid)
	return p != nil, p != nil && !p.entryOnly
}

// countLaunches sets the processes whose launches are counted only; all others are timed. It
// returns the processes that change: true for those now counted.
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

// countsLaunches reports whether launches of some process are counted only.
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
