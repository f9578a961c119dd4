package track

import (
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

func alloc(p, n uint64) with { return with{events.RolePtr: p, events.RoleBytes: n} }
func ptr(p uint64) with      { return with{events.RolePtr: p} }

// A few calls leave the expected ledger.
func TestMemory(t *testing.T) {
	type want struct {
		live, peak, host, allocs, frees, double, unknown, ooms uint64
		inexact                                                tick.Inexact
	}
	for _, tt := range []struct {
		name string
		do   func(b *bench)
		want want
	}{
		{"allocated and freed", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.call("cudaMalloc", alloc(2<<30, 50))
			b.call("cudaFree", ptr(1<<30))
		}, want{live: 50, peak: 150, allocs: 2, frees: 1}},
		{"the driver's call inside is the same", func(b *bench) {
			b.call("cuMemAlloc", alloc(1<<30, 100), within(b.t, "cudaMalloc"))
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.call("cuMemFree", ptr(1<<30), within(b.t, "cudaFree"))
			b.call("cudaFree", ptr(1<<30))
		}, want{peak: 100, allocs: 1, frees: 1}},
		{"inside a call that does not allocate it is its own", func(b *bench) {
			b.call("cuMemAlloc", alloc(1<<30, 100), within(b.t, "cudaLaunchKernel"))
		}, want{live: 100, peak: 100, allocs: 1}},
		{"inside one that does not say how much, the driver's counts", func(b *bench) {
			b.call("cuMemAllocPitch", with{events.RolePtr: 1 << 30, events.RoleBytes: 100, events.RolePitch: 512, events.RoleHeight: 4}, within(b.t, "cudaMalloc3D"))
			b.call("cudaMalloc3D", ptr(1<<30))
		}, want{live: 2048, peak: 2048, allocs: 1}},
		{"lines have their padding", func(b *bench) {
			b.call("cudaMallocPitch", with{events.RolePtr: 1 << 30, events.RoleBytes: 30, events.RolePitch: 512, events.RoleHeight: 3})
		}, want{live: 1536, peak: 1536, allocs: 1}},
		{"host memory is told apart", func(b *bench) {
			b.call("cudaMallocHost", alloc(7<<40, 100))
			b.call("cudaHostAlloc", alloc(8<<40, 11))
			b.call("cudaFreeHost", ptr(7<<40))
		}, want{host: 11, allocs: 2, frees: 1}},
		{"freed twice", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.call("cudaFree", ptr(1<<30))
			b.call("cudaFree", ptr(1<<30), failing(1))
		}, want{peak: 100, allocs: 1, frees: 1, double: 1}},
		{"freed, given again, freed", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.call("cudaFree", ptr(1<<30))
			b.call("cudaMalloc", alloc(1<<30, 70))
			b.call("cudaFree", ptr(1<<30))
		}, want{peak: 100, allocs: 2, frees: 2}},
		{"never allocated", func(b *bench) {
			b.call("cudaFree", ptr(1<<30), failing(1))
			b.call("cudaFree", ptr(0))
		}, want{unknown: 1}},
		{"a free that failed frees nothing", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.call("cudaFree", ptr(1<<30), failing(700))
		}, want{live: 100, peak: 100, allocs: 1}},
		{"out of memory", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.call("cudaMalloc", alloc(0, 1<<40), failing(2))
			b.call("cudaMalloc", alloc(0, 1<<40), failing(46))
		}, want{live: 100, peak: 100, allocs: 1, ooms: 1}},
		{"freed by a thread while another was given the address", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			early := b.at
			b.call("cudaMalloc", alloc(1<<30, 60), onThread(2))
			b.call("cudaFree", ptr(1<<30), func(c *events.Call) { c.Start, c.Duration = early, b.at-early })
		}, want{live: 60, peak: 100, allocs: 2, frees: 1}},
		{"thinned", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100), func(c *events.Call) { c.Weight = 4 })
		}, want{live: 100, peak: 100, allocs: 1, inexact: tick.InexactLost}},
		{"returns not watched", func(b *bench) {
			b.call("cudaMalloc", alloc(0, 100), func(c *events.Call) { c.Flags |= events.CallUnmeasured })
		}, want{inexact: tick.InexactUnmeasured}},
		{"not read", func(b *bench) {
			b.call("cudaMalloc", alloc(0, 100), func(c *events.Call) { c.Flags |= events.CallArgsPartial })
		}, want{inexact: tick.InexactUnread}},
		{"another program", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at + 1, Kind: tick.ProcExeced, PID: 1}})
		}, want{}},
		{"ended", func(b *bench) {
			b.call("cudaMalloc", alloc(1<<30, 100))
			b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at + 1, Kind: tick.ProcExited, PID: 1}})
		}, want{peak: 100, allocs: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			tt.do(b)
			m := b.state().Memory
			got := want{m.GPU.Bytes, m.GPU.Peak, m.Host.Bytes, m.Allocs, m.Frees, m.DoubleFrees, m.UnknownFrees, m.OOMs, m.Inexact}
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if b.tr.allocations != len(b.tr.procs[1].memory.live) {
				t.Errorf("%d allocations are counted, %d are held", b.tr.allocations, len(b.tr.procs[1].memory.live))
			}
		})
	}
}

// A failed allocation has the facts about fragmentation.
func TestOutOfMemory(t *testing.T) {
	b := newBench(t)
	b.call("cudaMalloc", alloc(1<<30, 1<<20))
	b.call("cudaMalloc", alloc(1<<30+1<<20, 1<<20))
	b.call("cudaMalloc", alloc(1<<30+2<<20, 1<<20))
	b.call("cudaFree", ptr(1<<30+1<<20))
	b.call("cudaMalloc", alloc(0, 1<<20), failing(2))
	o := b.state().Memory.LastOOM
	if !o.Fragmented || o.Size != 1<<20 || o.Live != 2<<20 || o.Peak != 3<<20 || o.Holes < 0.33 || o.Holes > 0.34 {
		t.Errorf("%+v", o)
	}
	b.call("cudaMalloc", alloc(0, 4<<20), failing(2))
	if o := b.state().Memory.LastOOM; o.Fragmented {
		t.Errorf("more than was ever held is not fragmentation: %+v", o)
	}
}

// A missing record is found by the kernel's count, one tick later.
func TestLostRecordsAreFound(t *testing.T) {
	b := newBench(t)
	op := opNamed(t, "cudaMalloc")
	b.call("cudaMalloc", alloc(1<<30, 100))
	tickWith := func(n uint64) tick.Inexact {
		to := tick.Tick{Ops: []tick.Op{{PID: 1, Op: op, Sum: tick.Counts{Calls: n, Done: n}}}}
		to.States = b.tr.Tick(to.Processes, to.Ops)
		return to.States[0].Memory.Inexact
	}
	if x := tickWith(2); x != 0 {
		t.Errorf("the second may be on its way: %v", x.Reasons())
	}
	b.call("cudaMalloc", alloc(2<<30, 100))
	if x := tickWith(3); x != 0 {
		t.Errorf("it came: %v", x.Reasons())
	}
	if x := tickWith(3); x != tick.InexactLost {
		t.Errorf("the third has not come: %v", x.Reasons())
	}
}

// Late records from before an exec have no effect, and do not count as missing in the kernel's
// continued counts.
func TestRecordsOfTheProgramBefore(t *testing.T) {
	b := newBench(t)
	op := opNamed(t, "cudaMalloc")
	b.call("cudaMalloc", alloc(1<<30, 100))
	last := b.make("cudaMalloc", alloc(2<<30, 100))
	b.tr.Batch(nil, []tick.ProcEvent{{Time: b.at + 1, Kind: tick.ProcExeced, PID: 1}})
	b.tr.Batch([]events.Call{last}, nil)
	b.at += 10
	b.call("cudaMalloc", alloc(3<<30, 1))
	for range 2 {
		to := tick.Tick{Ops: []tick.Op{{PID: 1, Op: op, Sum: tick.Counts{Calls: 3, Done: 3}}}}
		to.States = b.tr.Tick(to.Processes, to.Ops)
		if m := to.States[0].Memory; m.GPU.Bytes != 1 || m.Allocs != 1 || m.Inexact != 0 {
			t.Errorf("%+v: %v", m, m.Inexact.Reasons())
		}
	}
}

// The time of the attach decides whether a ledger may lack a beginning.
func TestLate(t *testing.T) {
	at := func(seconds int64) tick.Process {
		return tick.Process{PID: 2, Started: time.Unix(100, 0), Mapped: time.Unix(101, 0), Attached: time.Unix(100+seconds, 0)}
	}
	gated, shared, found := at(1), at(0), at(5)
	found.Mapped = time.Time{}
	for _, tt := range []struct {
		name string
		p    tick.Process
		want tick.Inexact
	}{
		{"held until the probes were there", gated, 0},
		{"the library was probed already", shared, 0},
		{"found at work", found, tick.InexactAttachedLate},
		{"probed after it was mapped", at(2), tick.InexactAttachedLate},
		{"not attached", tick.Process{PID: 2}, tick.InexactAttachedLate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.call("cudaMalloc", alloc(1<<30, 100), func(c *events.Call) { c.PID = 2 })
			to := tick.Tick{Processes: []tick.Process{tt.p}}
			to.States = b.tr.Tick(to.Processes, to.Ops)
			if got := to.States[1].Memory.Inexact; got != tt.want {
				t.Errorf("%v, want %v", got.Reasons(), tt.want.Reasons())
			}
		})
	}
}
