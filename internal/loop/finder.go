package loop

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

const (
	maxThreads = 512
	idleTicks  = 120         // ticks after which a silent thread is dropped
	leastSteps = 4           // minimum for a reported loop
	leastPhase = time.Minute // minimum time without steps of the main loop: a checkpoint is no phase
)

// Finder follows threads and finds their loops. It is not safe for concurrent use.
type Finder struct {
	threads map[uint32]*thread // by TID
	marked  map[uint32]*marked // threads that call NVTX, by TID
	names   int                // range names of all threads
	ticks   uint64
	ids     ids
}

// ids numbers the loops and names of all threads, each only once.
type ids uint64

func (n *ids) next() uint64 { *n++; return uint64(*n) }

// New returns an empty finder.
func New() *Finder { return &Finder{threads: map[uint32]*thread{}, marked: map[uint32]*marked{}} }

// Add takes in turns, the ledger's steps. It does not retain them.
func (f *Finder) Add(steps []ledger.Step) {
	for i := range steps {
		s := &steps[i]
		if s.Period || s.Length() <= 0 {
			continue
		}
		if m := f.marked[s.TID]; m != nil && m.pid == s.PID {
			m.newest = max(m.newest, s.To)
			m.turns = append(m.turns, s.To)
		}
		t := f.threads[s.TID]
		if t == nil || t.pid != s.PID {
			if t == nil && len(f.threads) >= maxThreads {
				continue
			}
			t = &thread{pid: s.PID, tid: s.TID, ids: &f.ids}
			f.threads[s.TID] = t
		}
		t.seen = f.ticks
		t.add(s)
	}
}

// Tick returns the loop of each process that has one, by PID.
func (f *Finder) Tick() map[uint32]*tick.Loop {
	f.ticks++
	best := map[uint32]*thread{}
	for tid, x := range f.threads {
		if f.ticks-x.seen > idleTicks {
			delete(f.threads, tid)
			continue
		}
		if l := x.main(); l != nil {
			b := best[x.pid]
			if b == nil || l.gpu > b.main().gpu || l.gpu == b.main().gpu && tid < b.tid {
				best[x.pid] = x
			}
		}
	}
	loops := map[uint32]*tick.Loop{}
	for pid, x := range best {
		loops[pid] = x.toTick()
	}
	for pid, m := range f.tickMarked() { // the program's ranges take precedence
		loops[pid] = m.toTick()
	}
	for _, x := range f.threads {
		for _, l := range x.loops {
			l.recent = nil
		}
	}
	for _, m := range f.marked {
		for _, n := range m.names {
			n.recent = nil
		}
	}
	return loops
}

// tickMarked returns, by process, the thread whose ranges are the steps, and drops silent threads.
func (f *Finder) tickMarked() map[uint32]*marked {
	best := map[uint32]*marked{}
	for tid, m := range f.marked {
		if f.ticks-m.seen > idleTicks {
			f.forget(m)
			continue
		}
		n := m.main()
		if n == nil {
			continue
		}
		b := best[m.pid]
		if b == nil || n.gpu > b.main().gpu || n.gpu == b.main().gpu && tid < b.tid {
			best[m.pid] = m
		}
	}
	return best
}

// main returns the loop with the longest total time, or nil.
func (t *thread) main() (most *found) {
	for _, l := range t.loops {
		if l.lengths.Count() >= leastSteps && (most == nil || l.total > most.total) {
			most = l
		}
	}
	return most
}

// toTick converts the main loop to a tick's form, with the others.
func (t *thread) toTick() *tick.Loop {
	most := t.main()
	out := most.toTick(t.tid)
	for _, l := range t.loops {
		if l == most || l.lengths.Count() < leastSteps {
			continue
		}
		if l.changed() {
			l.last = l.toTick(t.tid)
		}
		out.Others = append(out.Others, l.last)
		if l == t.current && l.replaces(most) {
			out.Now = l.last
		}
	}
	byID(out.Others)
	return out
}

func byID(loops []*tick.Loop) {
	slices.SortFunc(loops, func(a, b *tick.Loop) int { return cmp.Compare(a.ID, b.ID) })
}

// replaces reports whether the program repeats the loop instead of the main one.
func (l *found) replaces(most *found) bool { return l.until-most.until >= int64(leastPhase) }

// changed reports whether the loop differs from its form in the last tick.
func (l *found) changed() bool {
	return l.last == nil || l.last.Steps != l.lengths.Count() || len(l.last.Recent) > 0
}

// toTick converts the loop to a tick's form.
func (l *found) toTick(tid uint32) *tick.Loop {
	out := &tick.Loop{ID: l.id, TID: tid, Op: l.op, Waits: l.turns, Steps: l.lengths.Count(), Total: l.total, Lengths: l.lengths.Clone(),
		P50: time.Duration(l.lengths.Quantile(0.5)), P99: time.Duration(l.lengths.Quantile(0.99)), Slowest: l.slowest, Recent: l.recent}
	for i, p := range out.Usual.Parts() {
		*p = time.Duration(l.parts[i].Quantile(0.5))
	}
	return out
}
