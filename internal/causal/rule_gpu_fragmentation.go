package causal

import "ingero/internal/tick"

var gpuFragmentation = Rule{
	Name: "gpu-fragmentation", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"3"},
	Doc:     "An allocation failed though the job had held as much before: memory was there, but in pieces, or in another process.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "call-slow"},
	Find: func(f *Facts) []Finding {
		return noRoom(f, func(b *Book, s *tick.State) bool { return s.Memory.LastOOM.Fragmented && notFull(f, b) }, "allocations that failed though as much was held before")
	},
}
