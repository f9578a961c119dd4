package probes

import (
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"ingero/internal/bpf"
	"ingero/pkg/events"
)

const (
	// recent is how long a thread counts as useful after it last ended a long wait.
	recent = 10 * time.Second
	// maxWakers is the number of a process's slots of each kind: MAX_WAKERS in bpf/abi.h.
	maxWakers = 64
	// spareWakers is the number of these slots that are free, if enough threads are not useful.
	spareWakers = 8
)

// slots is a kind of a process's slots: of the first hop, or of all others.
type slots struct {
	pid  uint32 // 0: none
	deep bool
}

// waker is an enrolled thread that has not been useful recently.
type waker struct {
	tid, used uint32 // used: its UsedS
	unused    time.Duration
	slots     slots
	wakes     uint32 // the thread whose long wait it ended last
	blocked   bool
}

// review decides, from one reading of all threads, which enrolled threads lose their slots, and
// whether the clocks must tick.
type review struct {
	keep    time.Duration // Options.KeepWaker
	most    int           // threads from which on the table counts as crowded
	threads int
	taken   map[slots]int
	blocked map[uint32]bool
	idle    []waker
	tick    bool
}

// add adds a thread. now is of CLOCK_MONOTONIC, in ns.
func (r *review) add(tid uint32, s *ThreadState, now int64) {
	if r.taken == nil {
		r.taken, r.blocked = map[slots]int{}, map[uint32]bool{}
	}
	c := &s.Clock
	r.threads++
	blocked := c.State == uint32(bpf.IngeroWaitStateWAIT_BLOCKED)
	if blocked {
		r.blocked[tid] = true
	}
	of := slots{c.EnrolledFor, c.Hop > 1}
	if of.pid != 0 {
		r.taken[of]++
	}
	unused := time.Duration(now-int64(c.UsedS)*1e9) - time.Second // UsedS is rounded down
	if unused <= min(recent, r.keep) {
		r.tick = true
	} else if c.Hop != 0 {
		r.idle = append(r.idle, waker{tid, c.UsedS, unused, of, s.Wakes, blocked})
	}
	r.tick = r.tick || inLongGap(s, now)
}

// inLongGap reports whether a thread has been on a CPU for long since its last traced call: its stacks
// tell what it does. Threads that stopped making calls long ago do not count.
func inLongGap(s *ThreadState, now int64) bool {
	if s.Depth != 0 || s.ReturnedNs == 0 || s.Clock.State != uint32(bpf.IngeroWaitStateWAIT_NONE) {
		return false
	}
	since := time.Duration(now - int64(s.ReturnedNs))
	return since >= events.SampledGap && since < time.Second+recent
}

// ticks reports whether the clocks must tick: a thread has been useful recently, or is in a long gap,
// or computes while the thread that it woke last waits again, maybe for it.
func (r *review) ticks() bool {
	return r.tick || slices.ContainsFunc(r.idle, func(w waker) bool { return !w.blocked && r.blocked[w.wakes] })
}

// retired returns the enrolled threads that lose their slots: those unused for long, and, where free
// slots are few, any others that have not been useful recently. Choosing the longest unused ones would
// be wrong: where workers take turns, these are the next.
func (r *review) retired() (out []waker) {
	for _, w := range r.idle {
		scarce := r.taken[w.slots] > maxWakers-spareWakers || r.threads > r.most
		if w.slots.pid != 0 && (w.unused > r.keep || scarce) {
			r.taken[w.slots]--
			out = append(out, w)
		}
	}
	return out
}

// conclude applies a review.
func (t *Tracer) conclude(r *review) error {
	for _, w := range r.retired() {
		if err := t.retire(w.tid, w.used); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clocks.run(r.ticks())
}

// retire frees the slot of an enrolled thread, unless it was useful after used (s, of
// CLOCK_MONOTONIC). It keeps its account until it next blocks.
func (t *Tracer) retire(tid, used uint32) error {
	_, err := t.programs[bpf.IngeroProgRetire].Run(&ebpf.RunOptions{Context: bpf.IngeroRetireArgs{Tid: tid, UsedS: used}})
	if err != nil {
		return fmt.Errorf("retire thread %d: %w", tid, err)
	}
	return nil
}
