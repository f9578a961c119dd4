package probes

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/bpf"
)

// enrolled returns the state of a thread that is enrolled for process 1 and last ended a long wait,
// of thread 1, unused seconds before second 1000.
func enrolled(unused uint32) *ThreadState {
	s := &ThreadState{Tgid: 2, Wakes: 1}
	s.Clock.Hop, s.Clock.EnrolledFor, s.Clock.UsedS = 1, 1, 1000-unused
	s.Clock.State = uint32(bpf.IngeroWaitStateWAIT_BLOCKED)
	return s
}

// An unused waker keeps its slot for KeepWaker, or for 10 s while few slots are free.
func TestWakersKeepTheirSlots(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		useful, idle, most, retired int
	}{
		"many slots are free":           {useful: 1, idle: 54, most: 1000},
		"few slots are free":            {useful: 50, idle: 13, most: 1000, retired: 8},
		"few threads are idle":          {useful: 60, idle: 3, most: 1000, retired: 3},
		"the table of threads is small": {useful: 1, idle: 10, most: 5, retired: 10},
	} {
		r := review{keep: 2 * time.Minute, most: x.most}
		for i := range x.useful {
			r.add(uint32(100+i), enrolled(11), 1000e9)
		}
		for i := range x.idle {
			r.add(uint32(200+i), enrolled(12), 1000e9)
		}
		r.add(300, enrolled(122), 1000e9)
		got := r.retired()
		if len(got) != x.retired+1 || !slices.ContainsFunc(got, func(w waker) bool { return w.tid == 300 }) {
			t.Errorf("%s: %d wakers lose their slot, want %d and the longest unused one: %v", name, len(got), x.retired, got)
		}
		for _, w := range got {
			if w.tid < 200 {
				t.Errorf("%s: waker %d loses its slot, although it was useful recently", name, w.tid)
			}
		}
	}
}

// The clocks tick for threads that end waits, not for all that have a slot.
func TestClocksTickForUsefulWakers(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		unused          uint32
		computes, waits bool // waits: the thread that it woke last is blocked
		want            bool
	}{
		"useful recently":            {unused: 11, want: true},
		"not useful":                 {unused: 12, waits: true},
		"computes for another":       {unused: 60, computes: true, waits: true, want: true},
		"computes, and nobody waits": {unused: 60, computes: true},
	} {
		r := review{keep: 2 * time.Minute, most: 1000}
		w, caller := enrolled(x.unused), &ThreadState{Tgid: 1}
		if x.computes {
			w.Clock.State = uint32(bpf.IngeroWaitStateWAIT_NONE)
		}
		if x.waits {
			caller.Clock.State = uint32(bpf.IngeroWaitStateWAIT_BLOCKED)
		}
		r.add(2, w, 1000e9)
		r.add(1, caller, 1000e9)
		if got := r.ticks(); got != x.want {
			t.Errorf("%s: the clocks tick: %t, want %t", name, got, x.want)
		}
	}
}
