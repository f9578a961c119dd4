package causal

import "ingero/internal/tick"

const (
	fullShare   = 0.88 // of the most that was held
	fullSeconds = 2    // with failures, in which memory stays full
	fullOOMs    = 5    // failures in these
)

var kvCachePressure = Rule{
	Name: "kv-cache-pressure", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"6"},
	Doc:     "Memory stays full and allocations fail again and again: blocks of a cache are given up and made anew.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "call-slow", "memory-leak"},
	Find: func(f *Facts) []Finding {
		return noRoom(f, func(b *Book, _ *tick.State) bool { return full(b) }, "blocks that were not there")
	},
}

// full says whether memory was full in the seconds in which allocations failed, and stayed so.
func full(b *Book) bool {
	var before, failed uint64
	seconds, stays := 0, 0
	for i := range b.Seconds {
		m := &b.Seconds[i].Memory
		if n := m.OOMs - min(before, m.OOMs); n > 0 && (i > 0 || b.Seconds[0].From == b.First) {
			seconds++
			failed += n
			if float64(m.GPU.Bytes) >= fullShare*float64(m.GPU.Peak) {
				stays++
			}
		}
		before = m.OOMs
	}
	return failed >= fullOOMs && seconds >= fullSeconds && stays*4 >= seconds*3
}
