package unwind

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ingero/internal/proc"
)

// Options say what a Keeper works with. Kernel is required.
type Options struct {
	Files  proc.FS
	Kernel Kernel
	Bytes  int          // of tables in the kernel at a time; 0: 128 MiB
	Eager  int          // bytes of .eh_frame up to which a table is made before it is missed; 0: 2 MiB
	Log    *slog.Logger // nil: none
}

// How soon the mappings of a process are read again when an address was in none. The
// wait doubles while they are as they were. Where stacks are taken they are read again
// every rereadLast anyway: a library may have taken another's place.
const (
	rereadFirst = 20 * time.Millisecond
	rereadLast  = 10 * time.Second
)

// maxRequests bounds what is to be done.
const maxRequests = 1 << 15

// Figures say what a Keeper has.
type Figures struct {
	Processes int
	Waiting   int // requests that are not done yet
	Spaces    int // sets of mappings; forks share theirs
	Files     int // of which it has, or can make, a table
	Tables    int // that are in the kernel
	Bytes     int // that these take
	Rules     int
	Evicted   uint64 // tables that made room
	Refused   uint64 // tables for which there was none
	Failed    uint64 // files that could not be read, or make no sense
	Lost      uint64 // functions of which nothing is known though they have a table; requests too many
	Work      time.Duration
}

// Keeper keeps the kernel supplied with mappings and tables. Run does the work; the
// other methods tell it what to do, do not wait, and may be called from anywhere. Those of
// a nil Keeper do nothing: no stacks are taken.
type Keeper struct {
	Options
	wake  chan struct{}
	last  atomic.Uint64 // misses that Check has seen
	moved atomic.Bool   // Check has seen more since

	mu      sync.Mutex
	queue   []request
	doing   int // requests
	figures Figures
	lost    uint64

	// What follows is Run's own.
	procs  map[uint32]*process
	spaces ids
	made   uint64 // spaces, ever
	files  *files
	looked time.Time // when all processes were last looked at
	due    time.Time // when something is to be done though nobody asks; zero: nothing is
}

// request is one thing to do.
type request struct {
	what what
	pid  uint32
	peer uint32
}

type what uint8

const (
	add what = iota
	forked
	execed
	ended
)

// process is one of which stacks are taken.
type process struct {
	space  *space
	seen   time.Time // it was there then
	missed bool
	next   time.Time // when it may be read again
	wait   time.Duration
}

// space is what one process, or several, have mapped.
type space struct {
	slot  uint32
	id    uint64
	users int
	maps  []Mapping
	files []*file   // that maps refers to
	since time.Time // when they were read
}

// NewKeeper returns a Keeper that knows no process.
func NewKeeper(o Options) *Keeper {
	if o.Bytes == 0 {
		o.Bytes = 128 << 20
	}
	if o.Eager == 0 {
		o.Eager = 2 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{Options: o, wake: make(chan struct{}, 1), procs: map[uint32]*process{}, spaces: ids{limit: MaxSpaces}, files: newFiles(o)}
}

// Add has the stacks of a process taken, or its mappings read again.
func (k *Keeper) Add(pid uint32) { k.ask(request{what: add, pid: pid}) }

// Forked says that a process has a child, which the kernel has given its mappings.
func (k *Keeper) Forked(pid, child uint32) { k.ask(request{forked, pid, child}) }

// Execed says that a process runs another program. The kernel has dropped its mappings.
func (k *Keeper) Execed(pid uint32) { k.ask(request{what: execed, pid: pid}) }

// Ended says that a process has ended.
func (k *Keeper) Ended(pid uint32) { k.ask(request{what: ended, pid: pid}) }

func (k *Keeper) ask(r request) {
	if k == nil {
		return
	}
	k.mu.Lock()
	if len(k.queue) < maxRequests {
		k.queue = append(k.queue, r)
	} else {
		k.lost++
	}
	k.mu.Unlock()
	k.poke()
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Check looks whether the kernel has missed anything. It takes nanoseconds, and is to
// be called often.
func (k *Keeper) Check() {
	if k == nil {
		return
	}
	if n := k.Kernel.Misses(); k.last.Swap(n) != n {
		k.moved.Store(true)
		k.poke()
	}
}

// Figures returns what it has.
func (k *Keeper) Figures() Figures {
	if k == nil {
		return Figures{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.figures
	f.Lost += k.lost
	f.Waiting = len(k.queue) + k.doing
	return f
}

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		start := time.Now()
		more := k.work(start)
		k.count(time.Since(start))
		if more {
			continue
		}
		wait := time.Hour
		if !k.due.IsZero() {
			wait = time.Until(k.due)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-timer.C:
		}
	}
}

// work does what is to be done, and of tables one. It returns whether there is more.
func (k *Keeper) work(now time.Time) bool {
	k.mu.Lock()
	queue := k.queue
	k.queue, k.doing = nil, len(queue)
	k.mu.Unlock()
	for _, r := range queue {
		k.do(r, now)
	}
	again := now.Sub(k.looked) >= rereadLast
	if again {
		k.looked = now
	}
	if k.moved.Swap(false) || again {
		k.look(again)
		k.files.missed()
	}
	k.reread(now)
	return k.files.load()
}

func (k *Keeper) count(took time.Duration) {
	f := k.files.figures
	f.Processes, f.Spaces, f.Rules = len(k.procs), k.spaces.used(), k.files.rules.Len()
	k.mu.Lock()
	f.Work = k.figures.Work + took
	k.figures, k.doing = f, 0
	k.mu.Unlock()
}

func (k *Keeper) do(r request, now time.Time) {
	p := k.procs[r.pid]
	switch r.what {
	case add:
		if p == nil {
			p = &process{seen: now}
			k.procs[r.pid] = p
		}
		k.read(r.pid, p, now)
	case forked:
		if p == nil || k.procs[r.peer] != nil {
			return
		}
		child := &process{space: p.space, seen: now}
		k.procs[r.peer] = child
		if p.space == nil {
			k.read(r.peer, child, now)
			return
		}
		p.space.users++
		k.tell(r.peer, child)
		// What its parent has mapped since the fork is in there too.
		child.missed = now.Sub(p.space.since) < rereadLast
	case execed:
		if p != nil {
			k.release(p)
			*p = process{seen: now}
			k.read(r.pid, p, now)
		}
	case ended:
		if p != nil {
			k.forget(r.pid, p)
		}
	}
}

func (k *Keeper) forget(pid uint32, p *process) {
	delete(k.procs, pid)
	if err := k.Kernel.DropSpace(pid); err != nil {
		k.Log.Warn("stacks", "error", err)
	}
	k.release(p)
}

// release gives up the space of a process, which the kernel does not use any more.
func (k *Keeper) release(p *process) {
	s := p.space
	p.space = nil
	if s == nil {
		return
	}
	if s.users--; s.users > 0 {
		return
	}
	if err := k.Kernel.DropMappings(s.slot); err != nil {
		k.Log.Warn("stacks", "error", err)
	}
	k.spaces.free(s.slot)
	k.files.release(s.files)
}

// look finds the processes that are to be read again: they missed something, or it is
// time, and stacks of them are taken.
func (k *Keeper) look(again bool) {
	for pid, p := range k.procs {
		if !p.missed {
			used, missed := k.Kernel.Seen(pid)
			p.missed = missed || used && again
		}
	}
}

// reread reads the mappings of processes that are to be read again, and sets due.
func (k *Keeper) reread(now time.Time) {
	k.due = time.Time{}
	if len(k.procs) > 0 {
		k.due = k.looked.Add(rereadLast)
	}
	for _, pid := range slices.Collect(maps.Keys(k.procs)) {
		p := k.procs[pid]
		if p.missed && !now.Before(p.next) {
			k.read(pid, p, now)
		}
		if p.missed && (k.due.IsZero() || p.next.Before(k.due)) {
			k.due = p.next
		}
	}
}

// read reads the mappings of a process and lets the kernel know of them.
func (k *Keeper) read(pid uint32, p *process, now time.Time) {
	if err := k.files.writeRules(); err != nil {
		k.Log.Warn("stacks", "error", err)
		return
	}
	list, err := k.Files.Code(pid, p.seen)
	if errors.Is(err, proc.ErrGone) {
		k.forget(pid, p) // whether its end has been told or will be
		return
	}
	if err != nil {
		k.Log.Debug("stacks: mappings", "pid", pid, "error", err)
		return
	}
	mapped, used := k.files.mappings(pid, list)
	p.missed = false
	if p.space != nil && slices.Equal(mapped, p.space.maps) {
		k.files.release(used)
		k.tell(pid, p) // that it was looked at
		p.wait = min(max(2*p.wait, rereadFirst), rereadLast)
	} else if k.move(pid, p, mapped, used, now) {
		p.wait = rereadFirst
	}
	p.next = now.Add(p.wait)
}

func (k *Keeper) tell(pid uint32, p *process) {
	if err := k.Kernel.SetSpace(pid, p.space.slot, p.space.id); err != nil {
		k.Log.Warn("stacks", "error", err)
	}
}

// move gives a process a space with these mappings. A space never changes, since the
// walker remembers what it found there.
func (k *Keeper) move(pid uint32, p *process, mapped []Mapping, used []*file, now time.Time) bool {
	slot, ok := k.spaces.take()
	if !ok {
		k.files.release(used)
		k.files.figures.Refused++
		return false
	}
	k.made++
	s := &space{slot: slot, id: k.made, users: 1, maps: mapped, files: used, since: now}
	err := k.Kernel.PutMappings(s.slot, s.id, mapped)
	if err == nil {
		err = k.Kernel.SetSpace(pid, s.slot, s.id)
	}
	if err != nil {
		k.Log.Warn("stacks", "error", err)
		k.files.release(used)
		k.spaces.free(s.slot)
		return false
	}
	k.release(p)
	p.space = s
	return true
}
