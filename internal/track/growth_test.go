package track

import (
	"math/rand/v2"
	"testing"

	"ingero/pkg/events"
)

// Memory is allocated and freed step by step, over ten minutes; the growth estimate tells leaks
// from steady use.
func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		name    string
		minutes int64
		leak    func(step int64) uint64 // bytes never freed, for one step per second
		want    bool
	}{
		{"no growth", 10, func(int64) uint64 { return 0 }, false},
		{"a megabyte a step", 10, func(int64) uint64 { return mb }, true},
		{"now and then", 10, func(n int64) uint64 {
			if n%7 == 0 {
				return 3 * mb
			}
			return 0
		}, true},
		{"built up in the first minute", 10, func(n int64) uint64 {
			if n < 60 {
				return 10 * mb
			}
			return 0
		}, false},
		{"twenty seconds are too little", 0, func(int64) uint64 { return mb }, false},
		{"little, of much", 10, func(int64) uint64 { return 1024 }, false},
		{"it has stopped", 10, func(n int64) uint64 {
			if n < 300 {
				return mb
			}
			return 0
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			rng := rand.New(rand.NewPCG(1, 2))
			next, kept := uint64(1<<30), uint64(0)
			give := func(n uint64) uint64 {
				b.call("cudaMalloc", alloc(next, n))
				next += n
				return next - n
			}
			give(500 * mb)
			for step := range max(tt.minutes*60, 20) {
				b.at += second
				var held []uint64
				for range 3 { // of any size, and freed before the step ends
					held = append(held, give(1+rng.Uint64N(50*mb)))
				}
				if n := tt.leak(step); n > 0 {
					give(n)
					kept += n
				}
				for _, p := range held {
					b.call("cudaFree", with{events.RolePtr: p})
				}
			}
			g := b.state().Memory.Growth
			if g.Leak != tt.want {
				t.Errorf("leak %v, want %v: %+v", g.Leak, tt.want, g)
			}
			if !tt.want {
				return
			}
			if real := float64(kept) / float64(tt.minutes); g.Low > real || g.High < real || g.PerMinute < 0.8*real || g.PerMinute > 1.25*real {
				t.Errorf("%.1f MB a minute, between %.1f and %.1f; it was %.1f", g.PerMinute/mb, g.Low/mb, g.High/mb, real/mb)
			}
		})
	}
}
