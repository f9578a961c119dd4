package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ingero/internal/stats"
)

// quantile is Prometheus 2's quantile of a native histogram: linear within a bucket.
func quantile(e *Exponential, q float64) float64 {
	all := float64(e.Zero)
	for _, n := range e.Counts {
		all += float64(n)
	}
	rank, seen := q*all, float64(e.Zero)
	if seen >= rank {
		return 0
	}
	step := math.Exp2(math.Exp2(-float64(e.Scale)))
	for i, n := range e.Counts {
		if seen += float64(n); n > 0 && seen >= rank {
			hi := math.Exp2(float64(e.First+int32(i)) * math.Exp2(-float64(e.Scale)))
			lo := hi / step
			return lo + (hi-lo)*(rank-(seen-float64(n)))/float64(n)
		}
	}
	return math.NaN()
}

// Prometheus's quantiles from the buckets are within 5 % of ingero's.
func TestExponential(t *testing.T) {
	for name, draw := range map[string]func(*rand.Rand) int64{
		"uniform":   func(r *rand.Rand) int64 { return 1000 + r.Int64N(1e6) },
		"lognormal": func(r *rand.Rand) int64 { return int64(50_000 * math.Exp(r.NormFloat64())) },
		"constant":  func(*rand.Rand) int64 { return 123_456_789 },
		"bimodal":   func(r *rand.Rand) int64 { return []int64{700, 15e6}[r.IntN(2)] + r.Int64N(100) },
	} {
		for _, n := range []int{1, 7, 10_000} {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(n)))
				d := &Distribution{sketch: &stats.Sketch{}}
				for range n {
					d.sketch.Add(draw(r), 1)
				}
				e := d.Exponential()
				for _, q := range []float64{0.01, 0.25, 0.5, 0.9, 0.99, 0.999} {
					got, want := quantile(e, q), float64(d.sketch.Quantile(q))/1e9
					if math.Abs(got-want) > 0.05*want {
						t.Errorf("q%v = %v, want %v", q, got, want)
					}
				}
			})
		}
	}
}

// Buckets count all durations, from 0 to centuries.
func TestExponentialIsBounded(t *testing.T) {
	d := &Distribution{sketch: &stats.Sketch{}}
	d.sketch.Add(0, 3)
	n := uint64(3)
	for v := int64(64); v < 1<<60; v += max(v/64, 1) {
		d.sketch.Add(v, 1)
		n++
	}
	e := d.Exponential()
	all := e.Zero
	for _, c := range e.Counts {
		all += c
	}
	if all != n || e.Zero != 3 || len(e.Counts) > 1024 {
		t.Errorf("%d of %d durations, %d of zero, in %d buckets", all, n, e.Zero, len(e.Counts))
	}
	if got, want := quantile(e, 0.5), float64(d.sketch.Quantile(0.5))/1e9; math.Abs(got-want) > 0.05*want {
		t.Errorf("the median is %v, want %v", got, want)
	}
	cumulative := d.Classic()
	for i := 1; i < len(cumulative); i++ {
		if cumulative[i] < cumulative[i-1] {
			t.Errorf("classic buckets fall: %v", cumulative)
		}
	}
	if cumulative[0] < 3 || cumulative[len(cumulative)-1] > n {
		t.Errorf("classic buckets: %v of %d", cumulative, n)
	}
}
