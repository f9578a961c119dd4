package track

import (
	"testing"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// trainingStep makes the calls of one step of a training loop, and some allocations.
func trainingStep(b *bench) (calls []events.Call) {
	for i := range 20 {
		c := b.make("cudaLaunchKernel", with{events.RoleFunc: uint64(i), events.RoleStream: 0x5000})
		in := c
		in.Op, in.Parent = opNamed(b.t, "cuLaunchKernel"), c.Op
		in.Flags = events.CallNested | events.CallUnmeasured | events.CallInherited
		calls = append(calls, in, c)
	}
	calls = append(calls, b.make("cudaMemcpyAsync", with{events.RoleBytes: 1 << 20, events.RoleKind: 1, events.RoleStream: 0x5000, events.RoleSrc: 0x7000}))
	calls = append(calls, b.make("cudaMallocAsync", with{events.RolePtr: 1 << 30, events.RoleBytes: 1 << 20, events.RoleStream: 0x5000}))
	calls = append(calls, b.make("cudaFreeAsync", with{events.RolePtr: 1 << 30, events.RoleStream: 0x5000}))
	return append(calls, b.make("cudaStreamSynchronize", with{events.RoleStream: 0x5000}))
}

func TestCallsDoNotAllocate(t *testing.T) {
	b := newBench(t)
	batch := tick.Batch{Calls: trainingStep(b)}
	for range 2 * maxFreed { // until the remembered addresses are full
		b.tr.Batch(batch.Calls, nil)
	}
	if n := testing.AllocsPerRun(100, func() { b.tr.Batch(batch.Calls, nil) }); n > 0 {
		t.Errorf("%v allocations for %d calls, want none", n, len(batch.Calls))
	}
}

// BenchmarkBatch measures the cost of a call; with two threads, because cached state must then be
// looked up.
func BenchmarkBatch(b *testing.B) {
	x := newBench(b)
	batch := tick.Batch{Calls: trainingStep(x)}
	for i := range batch.Calls {
		batch.Calls[i].TID = uint32(1 + i/4%2)
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch.Calls {
			batch.Calls[i].Device = 0
		}
		x.tr.Batch(batch.Calls, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch.Calls)), "ns/call")
	b.ReportMetric(0, "ns/op")
}
