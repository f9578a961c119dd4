package causal

import "ingero/internal/tick"

const (
	fullShare = 0.88       // of the peak
	fullOOMs  = 5          // failures that show that memory stays full
	fullWait  = int64(3e9) // ns to wait for more failures
)

var kvCachePressure = Rule{
	Name: "kv-cache-pressure", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"6"},
	Doc:     "Memory stays full and allocations fail repeatedly: blocks of a cache are evicted and rebuilt.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "call-slow", "memory-leak"},
	Find:    noRoom(func(w *Window, b *ProcessHistory, _ *tick.Memory) bool { is, _ := w.full(b); return is }, "failed allocations of blocks"),
}

// full reports whether memory was full in the seconds with failed allocations, and stayed full
// although some was freed in the same steps. known is false while there are too few failures to
// tell.
func (w *Window) full(b *ProcessHistory) (is, known bool) {
	if y := w.cost(b.PID, &noRoomSteps); y.freed*3 < y.steps {
		return false, true // nothing is freed after a failure
	}
	var before, failed uint64
	seconds, stays := 0, 0
	last := int64(0)
	was, ended := false, false
	for i := range b.Seconds {
		m := &b.Seconds[i].Memory
		now := float64(m.GPU.Bytes) >= fullShare*float64(m.GPU.Peak)
		if n := m.OOMs - min(before, m.OOMs); n > 0 && (i > 0 || b.Seconds[0].From == b.First) {
			seconds++
			failed += n
			last = b.Seconds[i].To
			if now {
				stays++
			}
			ended = was && !now
		}
		before, was = m.OOMs, now
	}
	if ended { // memory was full up to its last second
		stays++
	}
	if stays*4 < seconds*3 {
		return false, true
	}
	return failed >= fullOOMs, failed >= fullOOMs || w.Now()-last > fullWait
}

// notFull reports whether memory is known not to stay full.
func (w *Window) notFull(b *ProcessHistory) bool {
	is, known := w.full(b)
	return known && !is
}
