package track

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"ingero/pkg/events"
)

// block is a block of memory that a program was given.
type block struct {
	bytes    uint64
	returned int64 // return time of the call that gave it or took it back
}

// program is a program whose threads allocate, free, run out of memory and free twice, all at once.
// It accounts for each effect at the moment when the driver causes it, anywhere in the call, and
// has the records.
type program struct {
	t       *testing.T
	rng     *rand.Rand
	clock   int64
	idle    [6]int64 // time from which each thread is in no call
	live    map[uint64]block
	freed   map[uint64]block // and not allocated again
	order   []uint64         // all addresses ever used
	next    uint64
	records []events.Call

	bytes, peak                 uint64
	allocs, frees, double, ooms uint64
}

// step makes one call. It returns false if the chosen call is not possible yet.
func (p *program) step() bool {
	p.clock += 1 + p.rng.Int64N(60)
	thread := p.rng.IntN(len(p.idle))
	if p.idle[thread] >= p.clock {
		return false
	}
	start := max(p.idle[thread], p.clock-p.rng.Int64N(300)-1)
	c := events.Call{PID: 1, TID: uint32(thread + 1), Weight: 1, Start: start, Duration: p.clock - start + 1 + p.rng.Int64N(300)}
	if !p.deed(&c) {
		return false
	}
	p.idle[thread] = c.End() + 1
	p.records = append(p.records, c)
	return true
}

func (p *program) deed(c *events.Call) bool {
	at := p.next
	if len(p.order) > 0 && p.rng.IntN(5) > 0 { // a driver reuses addresses
		at = p.order[p.rng.IntN(len(p.order))]
	}
	_, isLive := p.live[at]
	switch k := p.rng.IntN(100); {
	case k < 3:
		c.Op, c.Args[0], c.Result, c.Flags = opNamed(p.t, "cudaMalloc"), 1<<40, 2, events.CallFailed
		p.ooms++
	case isLive && p.live[at].returned < c.Start:
		c.Op, c.Args[0] = opNamed(p.t, "cudaFree"), at
		p.bytes -= p.live[at].bytes
		delete(p.live, at)
		p.freed[at] = block{returned: c.End()}
		p.frees++
	case isLive:
		return false
	case k < 20 && p.freed[at].returned > 0 && p.freed[at].returned < c.Start:
		c.Op, c.Args[0], c.Result, c.Flags = opNamed(p.t, "cudaFree"), at, 1, events.CallFailed
		p.double++
	default:
		size := 1 + p.rng.Uint64N(1<<20)
		c.Op, c.Args = opNamed(p.t, "cudaMalloc"), [4]uint64{size, at}
		if at == p.next && len(p.order) < 500 {
			p.order = append(p.order, at)
			p.next += 1 << 20
		}
		delete(p.freed, at)
		p.live[at] = block{size, c.End()}
		p.bytes += size
		p.peak = max(p.peak, p.bytes)
		p.allocs++
	}
	return true
}

// A ledger that reads records in the order of returns equals the program's: 100,000 calls of
// interfering threads.
func TestRandomPrograms(t *testing.T) {
	const calls = 25_000
	for seed := range uint64(4) {
		p := &program{t: t, rng: rand.New(rand.NewPCG(seed, 7)), clock: began, next: 1 << 30, live: map[uint64]block{}, freed: map[uint64]block{}}
		for len(p.records) < calls {
			p.step()
		}
		slices.SortStableFunc(p.records, func(a, b events.Call) int { return cmp.Compare(a.End(), b.End()) })
		b := newBench(t)
		for some := range slices.Chunk(p.records, 1000) {
			b.tr.Batch(some, nil)
		}
		m := b.state().Memory
		type sums struct{ bytes, allocs, frees, double, unknown, ooms uint64 }
		got := sums{m.GPU.Bytes, m.Allocs, m.Frees, m.DoubleFrees, m.UnknownFrees, m.OOMs}
		if want := (sums{p.bytes, p.allocs, p.frees, p.double, 0, p.ooms}); got != want || m.Inexact != 0 {
			t.Errorf("seed %d: %+v, inexact %v, want %+v", seed, got, m.Inexact.Reasons(), want)
		}
		if off := int64(m.GPU.Peak) - int64(p.peak); max(off, -off) > int64(len(p.idle))<<20 {
			t.Errorf("seed %d: a peak of %d, want %d and no more than what %d threads do at once off", seed, m.GPU.Peak, p.peak, len(p.idle))
		}
		held := b.tr.procs[1].memory.live
		for at, x := range p.live {
			if held[place{at: at}].bytes != x.bytes {
				t.Fatalf("seed %d: at %#x there are %d bytes, want %d", seed, at, held[place{at: at}].bytes, x.bytes)
			}
		}
		if len(held) != len(p.live) || uint64(len(held)) != m.GPU.Count {
			t.Errorf("seed %d: %d are held, %d counted, want %d", seed, len(held), m.GPU.Count, len(p.live))
		}
		t.Logf("seed %d: %+v", seed, got)
	}
}
