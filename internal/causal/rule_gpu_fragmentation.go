package causal

import "ingero/internal/tick"

var gpuFragmentation = Rule{
	Name: "gpu-fragmentation", Needs: NeedCalls | NeedState, Share: 0.01, Problems: []string{"3"},
	Doc:     "An allocation failed although the job had held as much memory before. The memory is fragmented, or another process has it.",
	Instead: []string{"alloc-slow", "alloc-storm", "free-waits", "call-slow"},
	Find: noRoom(func(w *Window, b *ProcessHistory, m *tick.Memory) bool { return m.LastOOM.Fragmented && w.notFull(b) },
		"failed allocations, although as much was held before"),
}
