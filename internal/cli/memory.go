package cli

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

	"ingero/internal/tick"
)

// enough is the memory use, in bytes, above which garbage is collected before the heap doubles.
// Beside a job that keeps starting processes, the heap would double otherwise.
const enough = 256 << 20

// memoryLimit returns the memory limit for a live heap. It leaves room above the live heap: at
// a limit that is fully in use, the collector takes half of all CPUs.
func memoryLimit(live uint64) int64 { return max(enough, int64(live+live/2)) }

// memoryBound is a sink that adjusts the memory limit, unless GOMEMLIMIT sets it.
type memoryBound struct {
	tick.TicksOnly
	limit int64 // current limit, bytes
	live  []metrics.Sample
}

// spareMemory returns nil if GOMEMLIMIT sets the limit.
func spareMemory() *memoryBound {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	m := &memoryBound{limit: memoryLimit(0), live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	debug.SetMemoryLimit(m.limit)
	return m
}

// Tick implements [tick.Sink]. Setting a limit stops the world, so it skips small changes.
func (m *memoryBound) Tick(*tick.Tick) error {
	metrics.Read(m.live)
	limit := memoryLimit(m.live[0].Value.Uint64())
	if change := limit - m.limit; change > m.limit/16 || -change > m.limit/16 {
		m.limit = limit
		debug.SetMemoryLimit(limit)
	}
	return nil
}

// Close implements [tick.Sink]. It removes the limit for this process's next trace.
func (m *memoryBound) Close() error {
	debug.SetMemoryLimit(math.MaxInt64)
	return nil
}
