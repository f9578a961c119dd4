package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ingero/internal/decode"
	"ingero/internal/gpu"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/internal/unwind"
	"ingero/internal/where"
	"ingero/pkg/events"
)

// LiveOptions say what to trace and how. Select is required.
type LiveOptions struct {
	Select proc.Selector
	Names  proc.Names
	Probes probes.Options
	// Gated is a process that has been started for this session and stands
	// still: it is released by its owner once OpenLive has returned, and stopped
	// for a moment whenever it maps a CUDA library, so that no call is missed.
	Gated uint32
	// Alone leaves out children, and probes the selected processes only.
	Alone bool
	// Raw leaves the cost of the probes in the durations.
	Raw bool
	// Place says where the selected processes are; the zero value: anywhere.
	Place where.Selector
	// Pods is for Place and for the names of pods; nil: they are not known.
	Pods Pods
	// Cmdline is how much of command lines is kept.
	Cmdline redact.Mode
	// PyFromUser has the agent read Python's functions, and not the kernel.
	PyFromUser bool
	// PyProbe lets the agent run copies of interpreters that fit nothing that is known.
	PyProbe bool
	// GPUs is where the driver and nvidia-smi are; the zero value: in this machine.
	GPUs gpu.Machine
	// MaxOverhead is what tracing may cost, as a share of the time of the traced
	// processes, before something is left out: see [govern.Steps]. 0: no bound.
	MaxOverhead float64
	// RawTape is where what is read is recorded as it was read, before it is decoded; nil:
	// nowhere. [Play] plays it.
	RawTape *RawTape
	Notify  func(Notice) // nil: nobody; called from any goroutine, must not block
	Log     *slog.Logger // nil: none
}

// batchLimit bounds the calls of one batch, and so the memory of a session.
const batchLimit = 8192

// Live is the source on the running kernel. It follows the selected processes
// and their children, and attaches to every CUDA library that they map, now or
// later. Poll, Totals, Stop and Close are for one goroutine.
type Live struct {
	LiveOptions
	fs      proc.FS
	tracer  *probes.Tracer
	kernel  kernel // tracer, or what stands before it
	raw     deck   // the raw tape; nil: there is none
	watcher *proc.MapWatcher
	clock   decode.Clock
	stop    context.CancelFunc
	work    sync.WaitGroup
	once    sync.Once
	stopped bool // by Stop; for the goroutine that polls
	stopErr error
	wake    chan struct{}
	// seccompHarm says that return probes kill processes with a filter.
	seccompHarm bool

	drainingLives sync.Mutex
	gate          chan struct{} // there are some in gates

	enrolling sync.Mutex // one enrolment at a time; it opens files, which may take long

	mu       sync.Mutex // guards what follows, never for long
	procs    map[uint32]*process
	libs     map[libraryKey]*library
	order    []*library
	pending  []tick.ProcEvent
	heard    [][]byte         // the records of pending, for a raw tape
	exits    exits            // of Poll
	gates    []tick.ProcEvent // of gated processes that stand
	reports  []tick.Report
	ends     []uint32 // processes that have ended after making calls, oldest first
	alive    int      // traced processes that live, but for those that stand aside
	aside    int      // those
	started  bool
	accounts accounts
	unlooked map[uint32]time.Time // processes to be looked into for linked-in libraries, and since when they could use one
	victims  map[uint32]string    // cgroups of processes killed for want of memory

	unwind *unwind.Keeper // nil where no stacks are taken
	inside proc.Finder
	look   chan struct{} // there are some
	frames *framer
	mem    *memories
	pys    *interpreters // nil where no stacks are taken

	malformed atomic.Uint64 // records of both rings
	codes     [][]byte      // of Python, until the stack that they are of comes; Poll's own
	gone      []tick.Thread // threads that have ended since the last tick; Poll's and Totals' own
	names     names         // of threads; Totals' own
	programs  *programs
	others    others                       // Poll's and Totals' own
	hostSums  hostWatch                    // Totals' own
	costs     map[probes.Place]probes.Cost // of probes; nil: not known
	holders   lockHolders                  // Poll's, interpreters' and lives' own
	gpus      devices                      // Poll's and Totals' own; read again each tick until there are some
	faults    *Faults                      // nil: they cannot be learnt
	states    *gpu.Poll
	smiWhys   whys     // Totals' own
	shed      shedding // Totals' own, but for what mu guards

	leaving  sync.Mutex    // one change of libraries' probes at a time
	choosing sync.Mutex    // likewise of what they are to be
	unlink   time.Duration // how long it takes to take one link out; 0: not known
	// usesChanged: a process uses one more library.
	usesChanged chan struct{}
}

type process struct {
	tick.Process
	start   uint64    // its StartTicks; 0: not known
	asked   bool      // what it was started with has been asked for
	traced  time.Time // since when, on its own account: zero if it was born to a traced process
	aside   bool      // it was there before the trace, is related to whom that is for, and uses no CUDA: its end is not waited for
	told    bool      // a tick has told of its end
	counted bool      // its counts have been read since that tick
	// entryOnly: a return probe would harm it.
	entryOnly bool
}

// libraryKey tells apart what one file holds: a program may have a runtime linked
// in, and an NCCL too.
type libraryKey struct {
	proc.Key
	lib events.Library
}

type library struct {
	tick.Library
	attached *probes.Attached
	users    map[uint32]bool
	idle     time.Time    // since when it has none
	without  map[int]bool // rows that have no probes, so that the session ends soon
	// uses are the functions that files of its users named, of ended ones too, or probes would
	// come and go with each short process. Guarded by choosing.
	uses map[string]proc.Use
}

// OpenLive loads the programs, finds the selected processes and attaches. When
// it returns, what they do from then on is seen. On error nothing stays open.
func OpenLive(ctx context.Context, o LiveOptions) (*Live, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Notify == nil {
		o.Notify = func(Notice) {}
	}
	o.Probes.Gate = o.Gated != 0
	o.Probes.EachStack = o.PyFromUser // the kernel cannot tell which differ in Python
	clock, err := decode.Now()
	if err != nil {
		return nil, err
	}
	l := &Live{LiveOptions: o, clock: clock, wake: make(chan struct{}, 1), gate: make(chan struct{}, 1),
		procs: map[uint32]*process{}, libs: map[libraryKey]*library{}, unlooked: map[uint32]time.Time{}, look: make(chan struct{}, 1), usesChanged: make(chan struct{}, 1),
		accounts: accounts{}, victims: map[uint32]string{}, names: names{}, others: others{known: map[uint32]*other{}}}
	if o.Place != (where.Selector{}) {
		l.Select.Only = l.placed
	}
	if l.tracer, err = probes.Open(o.Probes); err != nil {
		return nil, err
	}
	if l.kernel = l.tracer; o.RawTape != nil {
		if err := l.record(o.RawTape); err != nil {
			return nil, errors.Join(err, l.tracer.Close())
		}
	}
	l.mem = &memories{fs: l.fs}
	l.frames, l.holders.mem = newFramer(l.mem), l.mem
	l.programs = newPrograms(l.fs.Program, o.Cmdline)
	l.others.ask = func(p *proc.Process) {
		if l.sameUser(p.UID) {
			l.programs.ask(p.PID, p.StartTicks)
		}
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ErrPIDNamespace says that the numbers in this /proc are not those that the
// kernel's programs know.
var ErrPIDNamespace = errors.New("ingero runs in a PID namespace of its own")

func (l *Live) start(ctx context.Context) error {
	own, err := l.tracer.OwnPID()
	if err != nil {
		return err
	}
	if self := os.Getpid(); own != uint32(self) {
		return fmt.Errorf("%w: it is process %d here and %d on the host; start its container in the host's (docker run --pid=host, hostPID: true)",
			ErrPIDNamespace, self, own)
	}
	l.findGPUs()
	l.watchGPUs(ctx)
	if !l.Raw {
		l.calibrate(ctx)
	}
	// Watched before the scan: what is mapped between the two must not be missed.
	if l.watcher, err = proc.WatchMaps(l.Names); err != nil {
		return err
	}
	if l.Pods != nil {
		l.watchPods(ctx)
	}
	if l.Probes.Stacks != probes.StacksNone {
		l.pys = newInterpreters(l)
		l.work.Go(func() { l.pys.run(ctx) })
		l.unwind = unwind.NewKeeper(unwind.Options{Files: l.fs, Kernel: l.tracer.Walker(), Log: l.Log})
		l.work.Go(func() { l.unwind.Run(ctx) })
	}
	l.work.Go(l.readLives)
	l.work.Go(func() { l.openGates(ctx) })
	l.work.Go(l.readPressure)
	for _, pid := range l.Select.PIDs {
		if err := l.enrolPID(pid); err != nil {
			return err
		}
	}
	if l.Gated != 0 {
		if err := l.enrolPID(l.Gated); err != nil {
			return err
		}
	}
	if err := errors.Join(l.followFamily(ctx), l.rescan(ctx)); err != nil {
		return err
	}
	l.lookInside()
	l.work.Go(func() { l.readMaps(ctx) })
	l.work.Go(func() { l.readInside(ctx) })
	if l.fewLinks() {
		l.work.Go(func() { l.watchUses(ctx) })
	}
	l.beginHost()
	l.mu.Lock()
	l.started = true
	l.mu.Unlock()
	return nil
}

// SetSlow implements [Thinner].
func (l *Live) SetSlow(op events.Op, d time.Duration) error {
	for i, r := range l.kernel.Rows() {
		if r.Op == op {
			return l.kernel.SetSlow(i, d)
		}
	}
	return nil
}

// AgentPID implements [Agent].
func (l *Live) AgentPID() uint32 { return uint32(os.Getpid()) }

// Wake implements [Waker].
func (l *Live) Wake() <-chan struct{} { return l.wake }

// A library that is mapped is noticed by the next poll: the first calls into it that are
// not seen are those until then. A wake-up for nothing costs more than a poll.
const (
	patience     = 16 * time.Millisecond
	patienceIdle = 90 * time.Millisecond // while no process is traced
)

// Patience implements [Waker].
func (l *Live) Patience() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive+l.aside > 0 {
		return patience
	}
	return patienceIdle
}

// Poll implements [Source].
func (l *Live) Poll(b *tick.Batch) (more bool, err error) {
	if err := l.section(tape.Poll, time.Time{}); err != nil {
		return false, err
	}
	if l.watcher != nil {
		l.watcher.Look()
	}
	ended, waits := len(b.Ended), len(b.Waits)
	b.PyCodes = l.codes
	l.unwind.Check()
	n := l.kernel.Drain(batchLimit, func(record []byte) {
		if err := decode.Record(b, record, l.clock); err != nil {
			l.malformed.Add(1)
		}
	})
	l.codes, b.PyCodes = b.PyCodes, nil
	l.holders.waits(b.Waits[waits:])
	l.takeLives()
	l.gone = append(l.gone, b.Ended[ended:]...)
	l.gpus.waits(b.Waits[waits:])
	if !l.playing() {
		l.others.note(b.Waits[waits:], l.tracing)
	}
	l.mu.Lock()
	l.tapeLives()
	read, made := l.kernel.Waiting()
	b.Procs = l.exits.pass(b.Procs, l.pending, read, made)
	l.pending = l.pending[:0]
	over := l.started && l.alive == 0 && len(l.Select.PIDs) > 0
	l.mu.Unlock()
	if l.raw != nil {
		over = l.tapeOver(over)
	}
	if n == batchLimit {
		return true, nil
	}
	if l.stopped {
		b.Procs = l.exits.rest(b.Procs)
	}
	if over {
		return false, io.EOF
	}
	return false, nil
}

// Stop implements [Source]: it takes all probes out. Whoever could still put one
// in has ended before.
func (l *Live) Stop() error {
	l.once.Do(func() {
		l.stop()
		l.stopped = true
		errs := []error{l.section(tape.Stop, time.Time{})}
		if l.watcher != nil {
			errs = append(errs, l.watcher.Close())
		}
		errs = append(errs, l.tracer.StopLives(), l.leaveGPUs())
		l.work.Wait()
		l.letGo()
		for _, lib := range l.order {
			errs = append(errs, lib.attached.Close())
		}
		l.programs.stop()
		errs = append(errs, l.shed.endWeighing())
		l.stopErr = errors.Join(errs...)
	})
	return l.stopErr
}

// letGo lets go what still stands at a gate, of which there are no new ones.
func (l *Live) letGo() {
	for l.takeLives() {
	}
	l.eachGate(func(e tick.ProcEvent) { l.openGate(e, false) })
}

// Close implements [Source].
func (l *Live) Close() error {
	err := l.Stop()
	l.holders.close()
	if l.raw != nil {
		err = errors.Join(err, l.raw.close())
		l.raw = nil
	}
	return errors.Join(err, l.mem.close(), l.tracer.Close())
}
