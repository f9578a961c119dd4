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
	Find: func(f *Facts) []Finding {
		return noRoom(f, func(b *Book, _ *tick.State) bool { is, _ := full(f, b); return is }, "blocks that were not there")
	},
}

// full says whether memory was full in the seconds in which allocations failed, and stayed
// so, though some was freed in the same steps. known is false as long as too few have failed
// to say that it stays so.
func full(f *Facts, b *Book) (is, known bool) {
	if y := &f.costs(b.PID).of[costNoRoom]; y.freed*3 < y.steps {
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
	return failed >= fullOOMs, failed >= fullOOMs || f.Now()-last > fullWait
}

// notFull says whether it is known that memory does not stay full.
func notFull(f *Facts, b *Book) bool {
	is, known := full(f, b)
	return known && !is
}
