package session

import (
	"context"
	"sync"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/python"
	"ingero/internal/tick"
	"ingero/internal/unwind"
	"ingero/pkg/events"
)

// resolver finds out what names stacks and waits, apart from the calls: unwind tables, Python
// interpreters, mapped files, holders of the GIL. Its methods are safe for concurrent use, except
// waits and close.
type resolver struct {
	memories memories
	frames   *framer
	holders  *lockHolders
	unwind   *unwind.Keeper // nil if no stacks are taken
	pythons  *interpreters  // nil if no stacks are taken
	work     sync.WaitGroup
	last     time.Duration // bound on the wait at the end

	mu     sync.Mutex
	looked map[uint32]bool // processes whose data for stacks has been requested
}

func newResolver(raw tapeIO, clock decode.Clock) *resolver {
	r := &resolver{memories: memories{fs: processFS(clock)}, looked: map[uint32]bool{}, last: lastAnswers}
	r.frames = newFramer(&r.memories, clock)
	r.holders = newLockHolders(&r.memories, raw)
	return r
}

// start collects data for stacks until ctx ends.
func (r *resolver) start(ctx context.Context, o *LiveOptions, tracer *probes.Tracer, report *reporter) {
	if o.Probes.Stacks == probes.StacksNone {
		return
	}
	x := newInterpreters(report, r.frames.clock)
	x.know, x.forget, x.find = r.setInterpreter, r.holders.forget, r.finder(o)
	if x.probes = o.PyProbe; !o.PyFromUser {
		x.kernel = tracer
	}
	r.pythons = x
	r.work.Go(func() { x.run(ctx) })
	r.unwind = unwind.NewKeeper(unwind.Options{Kernel: tracer.Walker(), Log: o.Log})
	r.work.Go(func() { r.unwind.Run(ctx) })
}

// finder returns a function that finds the interpreter of a process.
func (r *resolver) finder(o *LiveOptions) func(pid uint32) (*python.Process, error) {
	open := r.memories.open
	if o.PyFromUser { // memory is read for each stack
		open = r.memories.quick
	}
	var prober *python.Prober
	if o.PyProbe {
		prober = &python.Prober{}
	}
	return func(pid uint32) (*python.Process, error) {
		m, done, err := open(pid)
		if err != nil {
			return nil, err
		}
		defer done()
		return python.Find(python.Target{FS: r.memories.fs, PID: pid, Memory: m, Prober: prober})
	}
}

// setInterpreter records the interpreter of a process. at is when the search for it began.
func (r *resolver) setInterpreter(pid uint32, process *python.Process, at int64) {
	r.frames.setInterpreter(pid, process, at)
	r.holders.setInterpreter(pid, process)
}

// traced handles a process that becomes traced or maps another file.
func (r *resolver) traced(pid uint32) {
	if r.pythons == nil {
		return
	}
	r.mu.Lock()
	r.looked[pid] = true
	r.mu.Unlock()
	r.unwind.Add(pid)
	r.frames.seen(pid)
	r.pythons.look(pid)
}

// waker handles a process whose threads other threads wait for. Its stacks are taken too, even if
// it makes no CUDA calls.
func (r *resolver) waker(pid uint32) {
	r.mu.Lock()
	looked := r.looked[pid]
	r.mu.Unlock()
	if !looked {
		r.traced(pid)
	}
}

// gateWait bounds how long a process stays at its gate for its interpreter.
const gateWait = time.Second

// ready waits until a process at its gate has been searched for an interpreter.
func (r *resolver) ready(pid uint32) { r.pythons.ready(pid, gateWait) }

func (r *resolver) forked(pid, child uint32, at int64) {
	r.unwind.Forked(pid, child)
	r.holders.fork(pid, child)
	if r.pythons.forked(pid, child, at) {
		r.mu.Lock()
		r.looked[child] = true
		r.mu.Unlock()
	}
}

func (r *resolver) execed(pid uint32, at time.Time) {
	r.forget(pid)
	r.unwind.Execed(pid, at)
	r.pythons.ended(pid, false)
}

func (r *resolver) forget(pid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.looked, pid)
}

func (r *resolver) ended(pid uint32) {
	r.forget(pid)
	r.unwind.Ended(pid)
	r.pythons.ended(pid, true)
}

// check looks for unwind data that the kernel missed. Call it often.
func (r *resolver) check() { r.unwind.Check() }

// waits completes waits that have just ended.
func (r *resolver) waits(waits []events.Wait) { r.holders.waits(waits) }

// drops returns the losses of names.
func (r *resolver) drops() []tick.Drop { return r.holders.drops() }

// python reports whether some process has a known interpreter.
func (r *resolver) python() bool { return r.pythons.any() }

// wait waits until start's ctx has ended and no search is running. A search that hangs in a read of a
// process's memory is abandoned.
func (r *resolver) wait() { waitFor(&r.work, r.last) }

// close forgets everything. Call it after wait.
func (r *resolver) close() error {
	r.holders.close()
	return r.memories.close()
}
