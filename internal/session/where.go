package session

import (
	"context"
	"sync"
	"time"

	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// Pods has the Kubernetes pods of this machine.
type Pods interface {
	// Run keeps the list of pods current until ctx ends, and passes errors to problem.
	Run(ctx context.Context, problem func(error))
	// Complete adds the facts about a process's pod, and reports whether they are complete.
	Complete(w *tick.Where) bool
	// List returns the pods that request GPUs.
	List() []tick.Pod
	// Changed delivers a value after changes.
	Changed() <-chan struct{}
}

// Inference reads the metrics of inference servers. Its methods are safe for concurrent use.
type Inference interface {
	// Run reads servers until ctx ends.
	Run(ctx context.Context)
	// See names the processes among which there may be servers. It does not wait.
	See(processes, others []tick.Process)
	// Take returns the reads since the last call.
	Take() []tick.Inference
}

// programs reads the command lines and environments of processes. A process whose memory map is
// locked can block its reader, so callers do not wait: they take answers when they are ready. A reader
// that hangs is replaced, so that the process does not keep others from being read.
type programs struct {
	read  func(pid uint32, vars []string) (*proc.Program, error)
	mode  redact.Mode
	queue chan question
	work  sync.WaitGroup

	mu      sync.Mutex
	seq     uint64
	open    uint64 // unanswered questions
	closed  bool
	answers map[uint32]answer
	readers [readers]*programReader
	hanging int    // replaced readers whose reads have not returned
	left    uint64 // refused questions
}

// programReader is the state of a reader. programs.mu guards it.
type programReader struct {
	busy     bool
	takes    int  // calls of take since its read began
	replaced bool // its read hangs, and it ends when that returns
}

const (
	readers      = 4
	maxQuestions = 1024
	maxHanging   = 16 // reads that hang at the same time; each keeps a thread
	// hangs is the number of calls of take, one a second, after which a read hangs. A fork of a process
	// with much memory delays a read by up to about a second.
	hangs = 3
	// lastAnswers bounds the wait for answers at the end of a session and in vars.
	lastAnswers = 2 * time.Second
)

type question struct {
	pid   uint32
	start uint64 // its StartTicks
	seq   uint64
	back  chan answer // receives the answer, with room for one; nil: the answer is for take
}

type answer struct {
	question
	cmdline string
	vars    map[string]string
}

func newPrograms(read func(uint32, []string) (*proc.Program, error), mode redact.Mode) *programs {
	p := &programs{read: read, mode: mode, queue: make(chan question, maxQuestions), answers: map[uint32]answer{}}
	for i := range p.readers {
		p.startReader(i)
	}
	return p
}

// startReader starts a reader in a place. mu is held, except before the first request.
func (p *programs) startReader(i int) {
	r := &programReader{}
	p.readers[i] = r
	p.work.Go(func() { p.run(r) })
}

// replace replaces the readers that hang. mu is held.
func (p *programs) replace() {
	for i, r := range p.readers {
		if !r.busy {
			continue
		}
		if r.takes++; r.takes >= hangs && p.hanging < maxHanging {
			r.replaced = true
			p.hanging++
			p.startReader(i)
		}
	}
}

// blocked reports whether all readers hang, and as many as may hang were replaced. mu is held.
func (p *programs) blocked() bool {
	for _, r := range p.readers {
		if !r.busy || r.takes < hangs {
			return false
		}
	}
	return true
}

func (p *programs) run(r *programReader) {
	vars := where.Variables()
	for q := range p.queue {
		p.mu.Lock()
		r.busy, r.takes = true, 0
		p.mu.Unlock()
		a := answer{question: q}
		x, err := p.read(q.pid, vars)
		known := x != nil && x.StartTicks == q.start && (err == nil || len(x.Args) > 0) // else it has ended, or is unreadable
		if known {
			a.cmdline, a.vars = p.mode.Line(x.Args), x.Vars
		}
		if q.back != nil {
			q.back <- a
		}
		p.mu.Lock()
		p.open--
		switch {
		case !known, q.back != nil, p.answers[q.pid].seq > q.seq: // the kept answer is newer
		default:
			p.answers[q.pid] = a
		}
		r.busy = false
		replaced := r.replaced
		if replaced {
			p.hanging--
		}
		p.mu.Unlock()
		if replaced {
			return
		}
	}
}

// request requests the data of a process, and reports whether there was room. It does not wait.
func (p *programs) request(pid uint32, start uint64) bool {
	return p.enqueue(question{pid: pid, start: start})
}

func (p *programs) enqueue(q question) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.blocked() || q.back == nil && int(p.open)+len(p.answers) >= maxQuestions { // each answer has room
		p.left++
		return false
	}
	p.seq++
	q.seq = p.seq
	select {
	case p.queue <- q:
		p.open++
		return true
	default:
		p.left++
		return false
	}
}

// vars returns the variables of a process, nil if they do not arrive in time.
func (p *programs) vars(pid uint32, start uint64) map[string]string {
	q := question{pid: pid, start: start, back: make(chan answer, 1)}
	if !p.enqueue(q) {
		return nil
	}
	select {
	case a := <-q.back:
		return a.vars
	case <-time.After(lastAnswers):
		return nil
	}
}

// take returns the answers so far, and the number of lost ones. Call it once a second.
func (p *programs) take() (map[uint32]answer, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.replace()
	}
	out := p.answers
	p.answers = map[uint32]answer{}
	left := p.left
	if p.closed {
		left += p.open
	}
	return out, left
}

// stop stops the readers once they have answered all questions. A blocked reader is abandoned: it
// ends with the process that it reads, or with this one.
func (p *programs) stop() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.queue)
	}
	p.mu.Unlock()
	waitFor(&p.work, lastAnswers)
}

// waitFor waits for goroutines, but not for longer than limit.
func waitFor(work *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// locate sets the place of a process that runs another program, from its cgroups.
func (p *process) locate(x *proc.Process) {
	p.start, p.requested = x.StartTicks, false
	p.Cgroup, p.Where = x.Cgroup, where.Cgroups(x.Cgroups)
}

// inherit copies a parent's place and its request state, which a fork does not change.
func (p *process) inherit(parent *process) {
	if parent.Cmdline != "" && parent.Cgroup == p.Cgroup {
		p.Where, p.requested = parent.Where, true
	}
}

// requestProgram requests a process's command line and environment, once. A request without room is
// made again at the next tick.
func (t *targets) requestProgram(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.procs[pid]; p != nil {
		t.requestProgramLocked(p)
	}
}

// requestProgramLocked implements requestProgram. mu is held.
func (t *targets) requestProgramLocked(p *process) {
	if !p.requested && p.start != 0 {
		p.requested = t.programs.request(p.PID, p.start)
	}
}

// variables returns a process's variables that name its place, nil if they do not arrive in time.
func (t *targets) variables(p *proc.Process) map[string]string {
	return t.programs.vars(p.PID, p.StartTicks)
}

// requestOther requests the command line of an untraced process, if its user has a traced one and there is room.
// It reports whether it did.
func (t *targets) requestOther(x *untracedProcess) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.procs {
		if p.UID == x.UID && p.Ended.IsZero() {
			return t.programs.request(x.PID, x.start)
		}
	}
	return false
}

// locate completes the places of processes, and requests missing data. It returns all answers, the
// number of lost ones, and the pods.
func (t *targets) locate() (answers map[uint32]answer, left uint64, pods []tick.Pod) {
	answers, left = t.programs.take()
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, a := range answers {
		if p := t.procs[pid]; p != nil && p.start == a.start {
			a.fill(&p.Process)
		}
	}
	for _, p := range t.procs {
		if p.Ended.IsZero() {
			t.requestProgramLocked(p)
		}
		completePod(t.pods, &p.Where)
	}
	if t.pods != nil {
		pods = t.pods.List()
	}
	return answers, left, pods
}

// fill copies the answer into a process.
func (a *answer) fill(p *tick.Process) {
	p.Cmdline = a.cmdline
	where.Environ(a.vars, &p.Where)
}

// completePod adds the pod of a process.
func completePod(pods Pods, w *tick.Where) {
	if pods != nil && (w.PodUID != "" || w.Container != "") && w.ContainerName == "" {
		pods.Complete(w)
	}
}
