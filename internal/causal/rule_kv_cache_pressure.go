package causal

import "ingero/internal/tick"

const (
	fullShare = 0.88       // of the most that was held
	fullOOMs  = 5          // failures that say that it stays so
	fullWait  = int64(3e9) // ns in which there are more of them
)

var kvCachePressure = Rule{
	Name: "kv-cache-pressure", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"6"},
	Doc:     "Memory stays full and allocations fail again and again: blocks of a cache are given up and made anew.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "call-slow", "memory-leak"},
	Find:    noRoom(func(w *Window, b *Book, _ *tick.Memory) bool { is, _ := w.full(b); return is }, "blocks that were not there"),
}

// full says whether memory was full in the seconds in which allocations failed, and stayed
// so, though some was freed in the same steps. known is false as long as too few have failed
// to say that it stays so.
func (w *Window) full(b *Book) (is, known bool) {
	if y := w.cost(b.PID, &noRoomSteps); y.freed*3 < y.steps {
		return false, true // nothing is given up for it
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
	if ended { // in its last second; it was full up to then
		stays++
	}
	if stays*4 < seconds*3 {
		return false, true
	}
	return failed >= fullOOMs, failed >= fullOOMs || w.Now()-last > fullWait
}

// notFull says whether it is known that memory does not stay full.
func (w *Window) notFull(b *Book) bool {
	is, known := w.full(b)
	return known && !is
}
