package probes

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"ingero/internal/bpf"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Mode is a way to link programs to functions.
type Mode string

// The modes, best first.
const (
	ModeAuto    Mode = ""        // the best that this kernel has
	ModeSession Mode = "session" // one program and one link a library (6.13)
	ModeMulti   Mode = "multi"   // a link for entries and one for returns (6.6)
	ModePerf    Mode = "perf"    // a link for each end of each function (5.15)
)

// ErrNotSupported reports that the kernel lacks what a mode needs.
var ErrNotSupported = errors.New("not supported by this kernel")

// Options configures tracing. The zero value suits most uses.
type Options struct {
	Mode         Mode
	Rows         []events.Row  // nil: the whole catalog
	RingBytes    int           // a power of two; 0: 8 MiB
	MaxThreads   int           // threads that can have an account at the same time; 0: 8192
	SamplingRate int           // 0 adaptive, 1 all, N: one record in N
	Long         time.Duration // least duration of a call that always has a record; 0: 100 us
	Gate         bool          // load the gate, for Launch
	EntryOnly    bool          // attach no return probes
	FirstByte    bool          // put probes on first bytes only, at any cost
	NoLedger     bool          // do not use the scheduler's tracepoints: no waits
	AllWaits     bool          // record each wait, however short
	NoHost       []HostPart    // host parts to leave out
	Pages        bool          // count page allocations
	Stacks       StackPolicy
	EachStack    bool // emit each stack, even if it was emitted before
	// KeepWaker is how long an enrolled thread keeps its account after it last ended a long wait;
	// 0: 2 min. Where slots are few, it is at most 10 s.
	KeepWaker time.Duration
	// NoWakers enrolls no threads: what wakers do is then unknown. Benchmarks use it to measure the
	// cost.
	NoWakers bool
	// Object is a compiled bpf/ingero.bpf.c to load instead of the embedded one. Tests use it to
	// inject faults.
	Object io.ReaderAt
}

const defaultRing = 8 << 20

// Tracer is a loaded BPF object with its links. Its methods are safe for concurrent use, except
// that one goroutine at a time may Drain.
type Tracer struct {
	objects struct {
		bpf.IngeroMaps
		bpf.IngeroVariables
	}
	programs     map[string]*ebpf.Program
	rows         []events.Row
	slots        uint32 // number of slots for counts of a process's row
	mode         Mode
	entry        atomic.Bool // no function has a return probe
	firstByte    bool
	ledger       bool
	allWaits     bool
	keepWaker    time.Duration
	noWakers     bool
	rings        rings    // of calls, and of records that answers depend on
	pressure     *wakeups // wake-ups of both rings
	critical     *Ring    // of process events
	lives        *wakeups // wake-ups of critical
	base         []link.Link
	hostNames    []string      // host programs
	hostLacks    []tick.Report // unavailable host sources; mu
	hostLinks    []link.Link   // mu
	hostDetached bool          // host programs are shed; mu
	hostBegun    bool          // mu
	clocks       *clocks       // nil: none; mu
	// quickCounted is set if calls of quick rows are counted only.
	quickCounted bool

	copies *copies

	first    sync.Once // attaches the programs of the scheduler and the host
	schedErr error

	mu      sync.Mutex
	levers  uint32 // changes of the switches so far
	epochs  uint32 // epochs given to interpreters
	stopped bool   // process events are no longer read
	closed  bool
}

// Open loads the programs and starts to follow process events. It attaches to no library and traces
// no process yet. On error nothing stays open.
func Open(o Options) (*Tracer, error) {
	if o.Rows == nil {
		o.Rows = events.Catalog
	}
	if o.RingBytes == 0 {
		o.RingBytes = defaultRing
	}
	mode, err := chooseMode(o.Mode)
	if err != nil {
		return nil, err
	}
	t := &Tracer{rows: o.Rows, mode: mode, firstByte: o.FirstByte, ledger: !o.NoLedger, allWaits: o.AllWaits, keepWaker: cmp.Or(o.KeepWaker, 2*time.Minute), noWakers: o.NoWakers}
	t.entry.Store(o.EntryOnly)
	if err := t.load(o); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Mode returns the tracer's mode.
func (t *Tracer) Mode() Mode { return t.mode }

// Rows returns the traced rows; indices in [CountsRow] refer to it.
func (t *Tracer) Rows() []events.Row { return t.rows }

// programPair names the programs of functions: one for both ends of a call, or two.
type programPair struct{ both, enter, exit string }

func (e programPair) names() (out []string) {
	for _, n := range []string{e.both, e.enter, e.exit} {
		if n != "" {
			out = append(out, n)
		}
	}
	return out
}

// modePrograms has the programs that each mode loads, for CUDA calls and for NVTX calls.
var modePrograms = map[Mode]struct{ calls, ranges programPair }{
	ModeSession: {programPair{both: bpf.IngeroProgCallSession}, programPair{both: bpf.IngeroProgRangeSession}},
	ModeMulti: {programPair{enter: bpf.IngeroProgCallEnterMulti, exit: bpf.IngeroProgCallExitMulti},
		programPair{enter: bpf.IngeroProgRangeEnterMulti, exit: bpf.IngeroProgRangeExitMulti}},
	ModePerf: {programPair{enter: bpf.IngeroProgCallEnter, exit: bpf.IngeroProgCallExit},
		programPair{enter: bpf.IngeroProgRangeEnterPerf, exit: bpf.IngeroProgRangeExitPerf}},
}

// programsFor returns the programs for the functions of a library.
func (t *Tracer) programsFor(lib events.Library) programPair {
	if lib == events.LibNVTX {
		return modePrograms[t.mode].ranges
	}
	return modePrograms[t.mode].calls
}

func (t *Tracer) load(o Options) error {
	load := bpf.LoadIngero
	if o.Object != nil {
		load = func() (*ebpf.CollectionSpec, error) { return ebpf.LoadCollectionSpecFromReader(o.Object) }
	}
	spec, err := load()
	if err != nil {
		return fmt.Errorf("read BPF object: %w", err)
	}
	spec.Maps[bpf.IngeroMapCallRing].MaxEntries = uint32(o.RingBytes)
	settings := stackSettings(spec, o.Stacks, o.EachStack)
	spec.Maps[bpf.IngeroMapKeptRing].MaxEntries = uint32(keptSize(o.RingBytes))
	t.slots = setTableSizes(spec, o.MaxThreads)
	settings[bpf.IngeroVarRingBytes] = uint64(o.RingBytes)
	settings[bpf.IngeroVarKeptBytes] = uint64(keptSize(o.RingBytes))
	settings[bpf.IngeroVarSamplingRate] = uint32(o.SamplingRate)
	settings[bpf.IngeroVarLongCall] = uint64(cmp.Or(o.Long, 100*time.Microsecond))
	settings[bpf.IngeroVarLedger] = t.ledger
	for name, value := range settings {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	for mode, p := range modePrograms { // this kernel may not know the other modes' kinds
		for _, n := range slices.Concat(p.calls.names(), p.ranges.names()) {
			if mode != t.mode {
				delete(spec.Programs, n)
			}
		}
	}
	if !o.Gate {
		delete(spec.Programs, bpf.IngeroProgGate)
	}
	if !t.ledger || o.Stacks == StacksNone {
		delete(spec.Programs, bpf.IngeroProgOnClock)
	}
	types := btf.NewCache()
	if err := errors.Join(t.prepareLedger(spec, types), t.prepareHost(spec, types, o.NoHost, o.Pages)); err != nil {
		return err
	}
	coll, err := loadAll(spec, types)
	if err != nil {
		return fmt.Errorf("load BPF programs: %w", explain(err))
	}
	t.programs = coll.Programs
	coll.Programs = nil
	defer coll.Close()
	if err := errors.Join(coll.Assign(&t.objects.IngeroMaps), coll.Assign(&t.objects.IngeroVariables)); err != nil {
		return fmt.Errorf("read BPF object: %w", err)
	}
	t.copies = &copies{changes: t.objects.LinksChanged, taken: map[uint64]uint64{}}
	if err := errors.Join(t.fillRecipes(), t.fillSlots(), t.fillHostRests()); err != nil {
		return err
	}
	if err := t.openRings(); err != nil {
		return err
	}
	return t.attachLives(o.Gate)
}

// fillRecipes writes the recipes of the rows.
func (t *Tracer) fillRecipes() error {
	for i := range t.rows {
		r, err := recipe(&t.rows[i])
		if err != nil {
			return err
		}
		if t.entry.Load() {
			r.Flags |= uint8(bpf.IngeroRecipeFlagsRECIPE_ENTRY_ONLY)
		}
		if err := t.objects.Recipes.Put(uint32(i), r); err != nil {
			return fmt.Errorf("write recipe of %s: %w", t.rows[i].Name, err)
		}
	}
	return nil
}

// EntryOnly reports whether no function has a return probe, so that all calls are counted only.
func (t *Tracer) EntryOnly() bool { return t.entry.Load() }

// WatchNoReturns makes libraries attached from now on have no return probes, and all calls counted
// only. [Attached.DropReturns] does so for those attached before.
func (t *Tracer) WatchNoReturns() error {
	t.entry.Store(true)
	return t.fillRecipes()
}

func (t *Tracer) attachLives(gate bool) error {
	names := []string{bpf.IngeroProgOnFork, bpf.IngeroProgOnExec, bpf.IngeroProgOnExit, bpf.IngeroProgOnSignal}
	if gate {
		names = append(names, bpf.IngeroProgGate)
	}
	return t.attachBase(names, &t.base)
}

// attachBase attaches programs that need no library.
func (t *Tracer) attachBase(names []string, to *[]link.Link) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return nil
	}
	for _, n := range names {
		l, err := link.AttachTracing(link.TracingOptions{Program: t.programs[n]})
		if err != nil {
			return fmt.Errorf("attach %s: %w", n, explain(err))
		}
		*to = append(*to, l)
	}
	return nil
}

// HostProbes returns the number of attached programs outside libraries.
func (t *Tracer) HostProbes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.base) + len(t.hostLinks)
}

// OwnPID returns this process's number as the programs see it, in the root PID namespace. If it
// differs from getpid(), the agent is in a PID namespace, and the numbers in its /proc differ from
// the programs'.
func (t *Tracer) OwnPID() (uint32, error) {
	pid, err := t.programs[bpf.IngeroProgWhoami].Run(&ebpf.RunOptions{})
	if err != nil {
		return 0, fmt.Errorf("read the agent's PID in the kernel: %w", err)
	}
	return pid, nil
}

// SetSlow sets the duration from which calls of a row are never thinned. Zero: no call is kept for
// its duration.
func (t *Tracer) SetSlow(row int, d time.Duration) error {
	var r bpf.IngeroRecipe
	if err := t.objects.Recipes.Lookup(uint32(row), &r); err != nil {
		return fmt.Errorf("read recipe %d: %w", row, err)
	}
	ns := uint32(min(max(d, 0), 1<<32-1))
	if r.SlowNs == ns {
		return nil
	}
	r.SlowNs = ns
	return t.objects.Recipes.Put(uint32(row), r)
}

// Drain passes on the waiting records of calls and waits, at most limit of them, those of a thread
// in order; see [Ring.Drain].
func (t *Tracer) Drain(limit int, take func(record []byte)) int {
	// Clear it first: a writer that finds a ring filling again must be heard.
	if t.Used() > 0 {
		_ = t.objects.RingWoken.Set(uint32(0))
	}
	return t.rings.Drain(limit, take)
}

// Used returns the number of unread bytes of such records.
func (t *Tracer) Used() uint64 {
	from, to := t.Waiting()
	return to - from
}

// Waiting is [Ring.Waiting] for such records.
func (t *Tracer) Waiting() (from, to uint64) { return t.rings.Waiting() }

// DrainLives passes on the process events that are waiting when it starts, in order, and returns
// their number; see [Ring.Drain]. An event that precedes a call record is read, at the latest, by
// the next DrainLives after Drain. Before waiting for more, call it until it returns 0, since the
// kernel wakes no reader while something is unread. One goroutine may drain at a time.
func (t *Tracer) DrainLives(take func(record []byte)) int {
	return t.critical.Drain(math.MaxInt, take)
}

// StopLives stops following process events; WaitLives and WaitPressure return. It is idempotent.
// After it, no process is stopped at its gate any more, and DrainLives has the events of those that
// were.
func (t *Tracer) StopLives() error {
	errs := []error{t.openGates()}
	t.mu.Lock()
	errs = append(errs, t.clocks.close(), closeLinks(slices.Concat(t.base, t.hostLinks)))
	t.base, t.hostLinks, t.stopped = nil, nil, true
	t.mu.Unlock()
	for _, w := range []*wakeups{t.pressure, t.lives} {
		if w != nil {
			errs = append(errs, w.stop())
		}
	}
	return errors.Join(errs...)
}

// Close detaches and unloads everything except library links, which each [Attached] closes. It is
// idempotent.
func (t *Tracer) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.mu.Unlock()
	errs := []error{t.StopLives()}
	for _, w := range []*wakeups{t.pressure, t.lives} {
		if w != nil {
			errs = append(errs, w.close())
		}
	}
	for _, p := range t.programs {
		errs = append(errs, p.Close())
	}
	errs = append(errs, t.rings.Close(), t.critical.Close(), t.objects.IngeroMaps.Close())
	return errors.Join(errs...)
}
