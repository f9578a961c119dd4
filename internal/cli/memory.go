package cli

import (
	"math"
	"runtime/debug"
	"runtime/metrics"

	"ingero/internal/tick"
)

// enough is the memory above which garbage is collected sooner than when it is as much as
// what is in use: beside a job that starts processes all the time it would be doubled.
const enough = 256 << 20

// memoryLimit is the bound for what a trace takes where so much is in use. It leaves room above
// that: at a bound that is all in use, collecting takes half of all CPUs.
func memoryLimit(live uint64) int64 { return max(enough, int64(live+live/2)) }

// memoryBound is the sink that sets that bound, unless GOMEMLIMIT does.
type memoryBound struct {
	limit int64 // that is set
	live  []metrics.Sample
}

// spareMemory returns nil where the bound is somebody else's.
func spareMemory() *memoryBound {
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		return nil
	}
	m := &memoryBound{limit: memoryLimit(0), live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	debug.SetMemoryLimit(m.limit)
	return m
}

// Batch implements [tick.Sink].
func (m *memoryBound) Batch(*tick.Batch) error { return nil }

// Tick implements [tick.Sink]. Setting a bound stops all threads for a moment: small changes wait.
func (m *memoryBound) Tick(*tick.Tick) error {
	metrics.Read(m.live)
	limit := memoryLimit(m.live[0].Value.Uint64())
	if change := limit - m.limit; change > m.limit/16 || -change > m.limit/16 {
		m.limit = limit
		debug.SetMemoryLimit(limit)
	}
	return nil
}

// Close implements [tick.Sink]: the next trace of this process begins anew.
func (m *memoryBound) Close() error {
	debug.SetMemoryLimit(math.MaxInt64)
	return nil
}
