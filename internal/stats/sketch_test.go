package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var quantiles = []float64{0.001, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999}

// shapes are typical distributions of call durations.
var shapes = map[string]func(*rand.Rand) int64{
	"uniform":   func(r *rand.Rand) int64 { return r.Int64N(1e6) },
	"lognormal": func(r *rand.Rand) int64 { return int64(5000 * math.Exp(r.NormFloat64())) },
	"bimodal": func(r *rand.Rand) int64 {
		if r.IntN(50) == 0 {
			return 15e6 + r.Int64N(1e5)
		}
		return 700 + r.Int64N(100)
	},
	"small":    func(r *rand.Rand) int64 { return r.Int64N(100) },
	"constant": func(*rand.Rand) int64 { return 123_456_789 },
	"any":      func(r *rand.Rand) int64 { return r.Int64() >> r.IntN(63) },
}

// oracle is the nearest-rank quantile of sorted values.
func oracle(sorted []int64, q float64) int64 {
	i := int(math.Ceil(q*float64(len(sorted))-1e-6)) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

func checkError(t *testing.T, name string, got, want int64, limit float64) {
	t.Helper()
	if d := math.Abs(float64(got) - float64(want)); d > limit*float64(want) {
		t.Errorf("%s = %d, want %d: off by %.4f, at most %.4f", name, got, want, d/float64(want), limit)
	}
}

func TestSketchAgainstSorted(t *testing.T) {
	for name, draw := range shapes {
		for _, n := range []int{1, 2, 3, 10, 1000, 50_000} {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(n), 7))
				var s Sketch
				values := make([]int64, n)
				sum := uint64(0)
				for i := range values {
					values[i] = draw(r)
					s.Add(values[i], 1)
					sum = satAdd(sum, uint64(values[i]))
				}
				sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
				if s.Count() != uint64(n) || s.Sum() != sum {
					t.Errorf("count, sum = %d, %d, want %d, %d", s.Count(), s.Sum(), n, sum)
				}
				if s.Quantile(0) != values[0] || s.Quantile(1) != values[n-1] || s.Min() != values[0] || s.Max() != values[n-1] {
					t.Errorf("ends = %d, %d, want %d, %d", s.Quantile(0), s.Quantile(1), values[0], values[n-1])
				}
				for _, q := range quantiles {
					checkError(t, fmt.Sprintf("q%v", q), s.Quantile(q), oracle(values, q), SketchError)
				}
			})
		}
	}
}

func TestSketchWeightIsRepetition(t *testing.T) {
	var once, many Sketch
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		v, w := shapes["lognormal"](r), r.Uint32N(5)
		once.Add(v, w)
		for range w {
			many.Add(v, 1)
		}
	}
	if !equal(&once, &many) {
		t.Errorf("one Add of weight w differs from w Adds: %d %d and %d %d", once.Count(), once.Sum(), many.Count(), many.Sum())
	}
}

func TestSketchMerge(t *testing.T) {
	for name, draw := range shapes {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			var whole Sketch
			parts := make([]Sketch, 4)
			for i := range 10_000 {
				v := draw(r)
				whole.Add(v, 1)
				parts[i%len(parts)].Add(v, 1)
			}
			var merged Sketch
			for i := range parts {
				merged.Merge(&parts[len(parts)-1-i])
			}
			merged.Merge(nil)
			merged.Merge(&Sketch{})
			if !equal(&whole, &merged) {
				t.Error("the merged parts differ from the whole")
			}
		})
	}
}

func TestSketchMergeSelfDoubles(t *testing.T) {
	var s Sketch
	s.Add(100, 1)
	s.Add(90_000, 2)
	s.Merge(&s)
	if s.Count() != 6 || s.Sum() != 2*(100+180_000) || s.Min() != 100 || s.Max() != 90_000 {
		t.Errorf("merged with itself: count %d sum %d min %d max %d", s.Count(), s.Sum(), s.Min(), s.Max())
	}
}

func TestSketchEmptyAndOddInput(t *testing.T) {
	var s Sketch
	if s.Quantile(0.5) != 0 || s.Quantile(1) != 0 || s.Count() != 0 || s.Min() != 0 || s.Max() != 0 {
		t.Error("an empty sketch has values")
	}
	s.Add(5, 0)
	if s.Count() != 0 {
		t.Error("weight 0 was counted")
	}
	s.Add(-7, 1)
	if s.Min() != 0 || s.Sum() != 0 || s.Count() != 1 {
		t.Errorf("a negative duration is not zero: min %d sum %d", s.Min(), s.Sum())
	}
	s.Add(math.MaxInt64, math.MaxUint32)
	if s.Sum() != math.MaxUint64 || s.Max() != math.MaxInt64 {
		t.Errorf("sum = %d, max = %d, want both at their limits", s.Sum(), s.Max())
	}
	if got := s.Quantile(math.NaN()); got != 0 {
		t.Errorf("quantile of NaN = %d, want the smallest", got)
	}
}

func TestSketchResetKeepsMemory(t *testing.T) {
	var s Sketch
	fill := func() {
		for v := int64(1); v < 1<<40; v *= 3 {
			s.Add(v, 1)
		}
	}
	fill()
	before := s.Clone()
	if n := testing.AllocsPerRun(100, func() { s.Reset(); fill() }); n != 0 {
		t.Errorf("%v allocations after Reset, want none", n)
	}
	if !equal(&s, before) {
		t.Error("the refilled sketch differs")
	}
	s.Reset()
	if s.Count() != 0 || s.Quantile(0.5) != 0 || s.Max() != 0 {
		t.Error("Reset left values")
	}
	if before.Count() == 0 {
		t.Error("Reset emptied the clone")
	}
}

func TestSketchBinary(t *testing.T) {
	for name, draw := range shapes {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(5, 6))
			var s, got Sketch
			for n := range 300 {
				b, err := s.MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				if err := got.UnmarshalBinary(b); err != nil {
					t.Fatalf("after %d values: %v", n, err)
				}
				if !equal(&s, &got) {
					t.Fatalf("after %d values the copy differs", n)
				}
				s.Add(draw(r), 1+r.Uint32N(3))
			}
		})
	}
}

func TestSketchBinaryRefuses(t *testing.T) {
	var s Sketch
	s.Add(1000, 1)
	s.Add(2_000_000, 3)
	good, _ := s.MarshalBinary()
	bad := map[string][]byte{
		"nothing":       {},
		"version":       append([]byte{9}, good[1:]...),
		"long":          append(append([]byte(nil), good...), 0),
		"buckets":       {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"extremes":      {1, 0, 0, 1, 0},
		"sum":           {1, 9, 3, 3, 1, 4, 1},
		"bucket beyond": {1, 0, 0, 0, 1, 0xff, 0xff, 0x03, 1},
		"zero count":    {1, 0, 0, 0, 1, 1, 0},
		"zero step":     {1, 0, 0, 0, 1, 0, 1},
	}
	for i := range good {
		bad[fmt.Sprint("cut at ", i)] = good[:i]
	}
	for name, b := range bad {
		t.Run(name, func(t *testing.T) {
			got := s.Clone()
			if err := got.UnmarshalBinary(b); !errors.Is(err, ErrCorrupt) {
				t.Errorf("error = %v, want ErrCorrupt", err)
			}
			if !equal(got, &s) {
				t.Error("a refused input changed the sketch")
			}
		})
	}
}

// equal compares the visible state of two sketches.
func equal(a, b *Sketch) bool {
	x, _ := a.MarshalBinary()
	y, _ := b.MarshalBinary()
	return cmp.Equal(x, y) && a.Count() == b.Count() && a.Quantile(0.5) == b.Quantile(0.5)
}

func FuzzSketchUnmarshal(f *testing.F) {
	var s Sketch
	f.Add([]byte{})
	for _, v := range []int64{0, 1, 77, 5000, 1 << 40, math.MaxInt64} {
		s.Add(v, 3)
		b, _ := s.MarshalBinary()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Sketch
		if s.UnmarshalBinary(data) != nil {
			return
		}
		if s.Min() > s.Max() || s.Quantile(0.5) < s.Min() || s.Quantile(0.5) > s.Max() {
			t.Errorf("min %d, median %d, max %d", s.Min(), s.Quantile(0.5), s.Max())
		}
		again, _ := s.MarshalBinary()
		var s2 Sketch
		if err := s2.UnmarshalBinary(again); err != nil || !equal(&s, &s2) {
			t.Errorf("does not survive a second trip: %v", err)
		}
		s2.Merge(&s)
	})
}

func BenchmarkSketchAdd(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	values := make([]int64, 4096)
	for i := range values {
		values[i] = shapes["lognormal"](r)
	}
	var s Sketch
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Add(values[i&4095], 1)
	}
}

func BenchmarkSketchMerge(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var s, sum Sketch
	for range 10_000 {
		s.Add(shapes["lognormal"](r), 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		sum.Merge(&s)
	}
}
