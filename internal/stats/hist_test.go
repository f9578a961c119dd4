package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

func TestHistBoundsAndIndexAgree(t *testing.T) {
	end := uint64(0)
	for i := range HistBuckets {
		lo, hi := HistBounds(i)
		if lo != end || hi <= lo {
			t.Fatalf("bucket %d = [%d, %d), want it to begin at %d", i, lo, hi, end)
		}
		if HistIndex(lo) != i || HistIndex(hi-1) != i {
			t.Fatalf("bucket %d = [%d, %d): its ends are in %d and %d", i, lo, hi, HistIndex(lo), HistIndex(hi-1))
		}
		end = hi
	}
	if end != math.MaxUint64 || HistIndex(math.MaxUint64) != HistBuckets-1 {
		t.Errorf("the last bucket ends at %d", end)
	}
}

// The kernel computes the same in its own way; these values are computed by hand from its rule.
func TestHistIndex(t *testing.T) {
	for v, want := range map[uint64]int{
		0: 0, 7: 7, 8: 8, 15: 15, 16: 16, 17: 16, 18: 17, 31: 23, 32: 24,
		1000:          (9-2)*8 + (1000>>6)&7,
		1 << 20:       (20 - 2) * 8,
		1<<42 - 1<<38: 319, 1<<42 - 1<<38 - 1: 318, 1 << 50: 319,
	} {
		if got := HistIndex(v); got != want {
			t.Errorf("HistIndex(%d) = %d, want %d", v, got, want)
		}
	}
}

func TestHistAgainstSorted(t *testing.T) {
	for name, draw := range shapes {
		if name == "any" { // beyond the last bucket's end the error is unbounded
			draw = func(r *rand.Rand) int64 { return r.Int64N(1<<41) >> r.IntN(41) }
		}
		for _, n := range []int{1, 3, 1000, 20_000} {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(n), 9))
				var h Hist
				values := make([]int64, n)
				for i := range values {
					values[i] = draw(r)
					h.Record(values[i], 1)
				}
				sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
				if h.Count() != uint64(n) {
					t.Errorf("count = %d, want %d", h.Count(), n)
				}
				for _, q := range append([]float64{0, 1}, quantiles...) {
					checkError(t, fmt.Sprintf("q%v", q), h.Quantile(q), oracle(values, q), HistError)
				}
			})
		}
	}
}

func TestHistAddSub(t *testing.T) {
	var a, b, sum Hist
	a.Record(5, 2)
	a.Record(-1, 1)
	b.Record(1e9, 3)
	sum.Add(&a)
	sum.Add(&b)
	if sum.Count() != 6 || sum[0] != 1 || sum[5] != 2 {
		t.Errorf("sum = %d entries, %v", sum.Count(), sum[:8])
	}
	sum.Sub(&a)
	if sum != b {
		t.Error("(a+b)-a differs from b")
	}
	sum.Sub(&a)
	if sum != b {
		t.Error("taking away what is not there went below zero")
	}
}

func TestHistEnds(t *testing.T) {
	var h Hist
	if h.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	h.Record(math.MaxInt64, 1)
	if got := h.Quantile(0.5); got != 1<<42-1<<38 {
		t.Errorf("median of the last bucket = %d, want its lower bound", got)
	}
}
