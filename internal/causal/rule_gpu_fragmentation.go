package causal

import "ingero/internal/tick"

var gpuFragmentation = Rule{
	Name: "gpu-fragmentation", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"3"},
	Doc:     "An allocation failed though the job had held as much before: memory was there, but in pieces, or in another process.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "call-slow"},
	Find: noRoom(func(w *Window, b *Book, m *tick.Memory) bool { return m.LastOOM.Fragmented && w.notFull(b) },
		"allocations that failed though as much was held before"),
}
