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

// Pods knows the Kubernetes pods of this machine.
type Pods interface {
	// Run keeps what is known up to date until ctx ends, and tells what hinders it.
	Run(ctx context.Context, problem func(error))
	// Complete adds what is known of a process's pod, and tells whether that is all.
	Complete(w *tick.Where) bool
	// List returns those that ask for GPUs.
	List() []tick.Pod
	// Changed delivers when there is something new.
	Changed() <-chan struct{}
}

// programs reads what processes were started with. A process whose memory map is locked
// can hold its reader up for as long, so nobody waits for an answer: they are taken when
// they are there.
type programs struct {
	read  func(pid uint32, vars []string) (*proc.Program, error)
	mode  redact.Mode
	queue chan question
	work  sync.WaitGroup

	mu      sync.Mutex
	seq     uint64
	open    uint64 // questions without an answer yet
	closed  bool
	answers map[uint32]answer
	left    uint64 // questions that were left out, since too many were open
}

const (
	readers      = 4
	maxQuestions = 1024
	// lastAnswers is how long the end of a session waits for answers, and how long
	// whoever must know one.
	lastAnswers = 2 * time.Second
)

type question struct {
	pid   uint32
	start uint64 // the process's StartTicks
	seq   uint64
	back  chan answer // who waits for it, with room for one; nil: it is for take
}

type answer struct {
	question
	cmdline string
	vars    map[string]string
}

func newPrograms(read func(uint32, []string) (*proc.Program, error), mode redact.Mode) *programs {
	p := &programs{read: read, mode: mode, queue: make(chan question, maxQuestions), answers: map[uint32]answer{}}
	for range readers {
		p.work.Go(p.run)
	}
	return p
}

func (p *programs) run() {
	vars := where.Variables()
	for q := range p.queue {
		a := answer{question: q}
		x, err := p.read(q.pid, vars)
		known := x != nil && x.StartTicks == q.start && (err == nil || len(x.Args) > 0) // else it has ended, or may not be read
		if known {
			a.cmdline, a.vars = p.mode.Line(x.Args), x.Vars
		}
		if q.back != nil {
			q.back <- a
		}
		p.mu.Lock()
		p.open--
		switch {
		case !known, q.back != nil, p.answers[q.pid].seq > q.seq: // the last: of an earlier program
		case len(p.answers) < maxQuestions:
			p.answers[q.pid] = a
		default:
			p.left++
		}
		p.mu.Unlock()
	}
}

// ask has a process looked at. It does not wait.
func (p *programs) ask(pid uint32, start uint64) { p.put(question{pid: pid, start: start}) }

func (p *programs) put(q question) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
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

// vars returns the variables of a process, none where they do not come in time.
func (p *programs) vars(pid uint32, start uint64) map[string]string {
	q := question{pid: pid, start: start, back: make(chan answer, 1)}
	if !p.put(q) {
		return nil
	}
	select {
	case a := <-q.back:
		return a.vars
	case <-time.After(lastAnswers):
		return nil
	}
}

// take returns the answers that have come, and how many there will not be.
func (p *programs) take() (map[uint32]answer, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.answers
	p.answers = map[uint32]answer{}
	left := p.left
	if p.closed {
		left += p.open
	}
	return out, left
}

// stop ends the readers once they have read what was asked for. One that is held up is
// left behind: it ends with the process that it reads, or with this one.
func (p *programs) stop() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.queue)
	}
	p.mu.Unlock()
	done := make(chan struct{})
	go func() { p.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(lastAnswers):
	}
}

// locate says where a process runs as another program, as far as its control groups
// tell.
func (p *process) locate(x *proc.Process) {
	p.start, p.asked = x.StartTicks, false
	p.Cgroup, p.Where = x.Cgroup, where.Cgroups(x.Cgroups)
}

// inherit takes over from a parent what a fork does not change.
func (p *process) inherit(parent *process) {
	if parent.Cmdline != "" && parent.Cgroup == p.Cgroup {
		p.Where, p.asked = parent.Where, true
	}
}

// ask has it read what a process was started with, once.
func (t *targets) ask(pid uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.procs[pid]; p != nil {
		t.askOnce(p)
	}
}

// askOnce is ask with mu held.
func (t *targets) askOnce(p *process) {
	if !p.asked && p.start != 0 {
		p.asked = true
		t.programs.ask(p.PID, p.start)
	}
}

// variables returns those of a process that say where it runs, none where they do not come in time.
func (t *targets) variables(p *proc.Process) map[string]string {
	return t.programs.vars(p.PID, p.StartTicks)
}

// askFor has it read what a process that is not traced was started with, if one of its user is.
func (t *targets) askFor(x *proc.Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.procs {
		if p.UID == x.UID && p.Ended.IsZero() {
			t.programs.ask(x.PID, x.StartTicks)
			return
		}
	}
}

// locate completes where processes run, and asks for what is not known yet. It returns all
// answers, how many there will not be, and the pods.
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
			t.askOnce(p)
		}
		completePod(t.pods, &p.Where)
	}
	if t.pods != nil {
		pods = t.pods.List()
	}
	return answers, left, pods
}

// fill takes the answer for a process.
func (a *answer) fill(p *tick.Process) {
	p.Cmdline = a.cmdline
	where.Environ(a.vars, &p.Where)
}

// completePod says of which pod a process is.
func completePod(pods Pods, w *tick.Where) {
	if pods != nil && (w.PodUID != "" || w.Container != "") && w.ContainerName == "" {
		pods.Complete(w)
	}
}
