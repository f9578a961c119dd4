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

// Options configure a Keeper. Kernel is required.
type Options struct {
	Files  proc.FS
	Kernel Kernel
	Bytes  int          // bound on the tables in the kernel; 0: 128 MiB
	Eager  int          // size of .eh_frame up to which a table is built before the first miss; 0: 2 MiB
	Log    *slog.Logger // nil: no logging
}

// How soon a process's mappings are read again after an address was in none of them. The wait
// doubles while they stay unchanged. The mappings of sampled processes are also read every
// rereadLast, since a new library may have replaced an old one.
const (
	rereadFirst = 20 * time.Millisecond
	rereadLast  = 10 * time.Second
)

// maxRequests bounds the queue of requests.
const maxRequests = 1 << 15

// Figures are the statistics of a Keeper.
type Figures struct {
	Processes int
	Waiting   int // pending requests
	Spaces    int // sets of mappings; forks share theirs
	Files     int // files that have or can have a table
	Tables    int // tables in the kernel
	Bytes     int // size of these tables
	Rules     int
	Evicted   uint64 // tables evicted to make room
	Refused   uint64 // tables refused for lack of room
	Failed    uint64 // files that were unreadable or invalid, or whose table the kernel did not take
	Lost      uint64 // functions whose unwind data is invalid or too much, and requests beyond the queue's bound
	Work      time.Duration
}

// Keeper keeps the kernel supplied with mappings and tables. Run does the work. The other methods
// queue requests, do not block, and are safe for concurrent use. On a nil Keeper they do nothing:
// no stacks are taken.
type Keeper struct {
	Options
	wake  chan struct{}
	last  atomic.Uint64 // misses that Check has seen
	moved atomic.Bool   // Check has seen new misses

	mu      sync.Mutex
	queue   []request
	doing   int // requests
	figures Figures
	lost    uint64

	// The fields below belong to Run.
	procs  map[uint32]*process
	spaces ids
	made   uint64 // number of spaces ever made
	files  *files
	looked time.Time // when all processes were last looked at
	due    time.Time // when the next timed work is due; zero: none
	rest   rest
}

// request is one queued request.
type request struct {
	kind requestKind
	pid  uint32
	peer uint32
	at   time.Time // of an exec
}

type requestKind uint8

const (
	add requestKind = iota
	forked
	execed
	ended
)

// process is a process whose stacks are taken.
type process struct {
	space  *space
	seen   time.Time // when it was last seen
	read   time.Time // when its own mappings were last read; a child has its parent's first
	missed bool
	next   time.Time // earliest time of the next read
	wait   time.Duration
}

// NewKeeper returns a Keeper without processes.
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

// Add starts taking the stacks of a process, or rereads its mappings.
func (k *Keeper) Add(pid uint32) { k.enqueue(request{kind: add, pid: pid}) }

// Forked records a process's child, to which the kernel has given the parent's mappings.
func (k *Keeper) Forked(pid, child uint32) { k.enqueue(request{kind: forked, pid: pid, peer: child}) }

// Execed records that a process called exec at a time. The kernel has dropped its mappings.
func (k *Keeper) Execed(pid uint32, at time.Time) {
	k.enqueue(request{kind: execed, pid: pid, at: at})
}

// Ended records that a process has ended.
func (k *Keeper) Ended(pid uint32) { k.enqueue(request{kind: ended, pid: pid}) }

func (k *Keeper) enqueue(r request) {
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

// Check checks whether the kernel has missed a table or mapping. It takes nanoseconds; call it
// often.
func (k *Keeper) Check() {
	if k == nil {
		return
	}
	if n := k.Kernel.Misses(); k.last.Swap(n) != n && !k.moved.Swap(true) {
		k.poke()
	}
}

// Figures returns the statistics.
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

// Run works until ctx is done.
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

// work handles all requests and one batch of tables. It reports whether there is more to do.
func (k *Keeper) work(now time.Time) bool {
	k.mu.Lock()
	queue := k.queue
	k.queue, k.doing = nil, len(queue)
	k.mu.Unlock()
	for _, r := range queue {
		k.do(r, now)
		k.rest = rest{} // its first misses are looked at at once
	}
	again := now.Sub(k.looked) >= rereadLast
	if again {
		k.looked = now
	}
	missed := k.moved.Load()
	look := again || k.rest.over(now) && missed
	if look {
		k.moved.Store(false)
		k.look(again)
		k.files.missed(now)
	}
	read := k.reread(now)
	more := k.files.load(now)
	if look && missed {
		k.rest.begin(now, read || more)
	}
	if k.moved.Load() && k.rest.until.Before(k.due) {
		k.due = k.rest.until
	}
	return more
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
	switch r.kind {
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
		k.setSpace(r.peer, child)
		// The space includes what the parent has mapped since the fork.
		child.missed = now.Sub(p.space.since) < rereadLast
	case execed:
		if p == nil {
			return
		}
		if !p.read.After(r.at) { // the kernel may have its parent's mappings again, from a fork handled late
			k.drop(r.pid, p)
			*p = process{seen: now}
		}
		p.missed, p.next = true, now.Add(rereadFirst) // it maps its libraries now; most soon end
	case ended:
		if p != nil {
			k.forget(r.pid, p)
		}
	}
}

func (k *Keeper) forget(pid uint32, p *process) {
	delete(k.procs, pid)
	k.drop(pid, p)
}

// look finds the processes to reread: those with misses, and, if again is set, all those of which
// stacks are taken.
func (k *Keeper) look(again bool) {
	for pid, p := range k.procs {
		if !p.missed {
			used, missed := k.Kernel.Seen(pid)
			p.missed = missed || used && again
		}
	}
}

// reread rereads the mappings of processes that are due, and reports whether there are any. It sets
// k.due.
func (k *Keeper) reread(now time.Time) (read bool) {
	k.due = time.Time{}
	if len(k.procs) > 0 {
		k.due = k.looked.Add(rereadLast)
	}
	for _, pid := range slices.Collect(maps.Keys(k.procs)) {
		p := k.procs[pid]
		if p.missed && !now.Before(p.next) {
			k.read(pid, p, now)
			read = true
		}
		if p.missed && (k.due.IsZero() || p.next.Before(k.due)) {
			k.due = p.next
		}
	}
	return read
}

// read reads the mappings of a process and passes them to the kernel.
func (k *Keeper) read(pid uint32, p *process, now time.Time) {
	p.wait = min(max(2*p.wait, rereadFirst), rereadLast) // also after an error
	p.next = now.Add(p.wait)
	if err := k.files.writeRules(); err != nil {
		k.Log.Warn("stacks", "error", err)
		return
	}
	list, err := k.Files.Code(pid, p.seen)
	if errors.Is(err, proc.ErrExited) {
		k.forget(pid, p) // whether or not its end has been reported
		return
	}
	if err != nil {
		k.Log.Debug("stacks: mappings", "pid", pid, "error", err)
		return
	}
	mapped, used := k.files.mappings(pid, list)
	p.missed, p.read = false, now
	if p.space != nil && slices.Equal(mapped, p.space.maps) {
		k.files.release(p.space.files)
		p.space.files = used // other copies of its files may be mapped now
		k.setSpace(pid, p)   // records that it was looked at
	} else if k.move(pid, p, mapped, used, now) {
		p.wait = rereadFirst
		p.next = now.Add(p.wait)
	}
}
