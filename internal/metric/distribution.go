package metric

import (
	"math"
	"sync"

	"ingero/internal/stats"
)

// Distribution is a distribution of durations. It is not changed any more, and safe for
// concurrent use.
type Distribution struct {
	sketch *stats.Sketch
	once   sync.Once
	exp    Exponential
}

// Count is how many durations there are.
func (d *Distribution) Count() uint64 { return d.sketch.Count() }

// Sum is the sum of the durations, in seconds.
func (d *Distribution) Sum() float64 { return float64(d.sketch.Sum()) / 1e9 }

// Min and Max are the shortest and the longest, in seconds.
func (d *Distribution) Min() float64 { return float64(d.sketch.Min()) / 1e9 }

// Max is the longest, in seconds.
func (d *Distribution) Max() float64 { return float64(d.sketch.Max()) / 1e9 }

// Exponential is a distribution in exponential buckets, as native histograms of Prometheus
// and exponential histograms of OpenTelemetry have them: bucket i of Prometheus holds the
// seconds in (2^((i-1)/2^Scale), 2^(i/2^Scale)], that of OpenTelemetry is i-1.
type Exponential struct {
	Scale int32
	Zero  uint64 // durations of 0
	// First is the number of the first bucket, by Prometheus's numbers; Counts are from
	// there on without a break.
	First  int32
	Counts []uint64
}

const (
	// scale is that of the buckets: 128 an octave, so that what is read from one is within
	// 0.6 % of the middle of the sketch's bucket.
	scale = 7
	// maxBuckets is how many buckets may have something: more have a smaller scale.
	maxBuckets = 1280
)

// Exponential returns the distribution in such buckets. A sketch's bucket goes where its
// middle lies.
func (d *Distribution) Exponential() *Exponential {
	d.once.Do(func() { d.exp = exponential(d.sketch) })
	return &d.exp
}

func exponential(s *stats.Sketch) Exponential {
	e := Exponential{Scale: scale}
	at := map[int32]uint64{}
	for lo, n := range s.Middles() {
		if lo == 0 {
			e.Zero += n
			continue
		}
		at[bucketOf(float64(lo)/1e9)] += n
	}
	for len(at) > maxBuckets {
		e.Scale--
		half := make(map[int32]uint64, len(at))
		for i, n := range at {
			half[(i+1)>>1] += n
		}
		at = half
	}
	if len(at) == 0 {
		return e
	}
	first, last := int32(math.MaxInt32), int32(math.MinInt32)
	for i := range at {
		first, last = min(first, i), max(last, i)
	}
	e.First, e.Counts = first, make([]uint64, last-first+1)
	for i, n := range at {
		e.Counts[i-first] = n
	}
	return e
}

// bucketOf returns the bucket that seconds lie in.
func bucketOf(seconds float64) int32 {
	return int32(math.Ceil(math.Log2(seconds) * (1 << scale)))
}

// Bounds are the upper bounds of the buckets of classic histograms, in seconds; one more
// has no end.
var Bounds = [...]float64{1e-6, 5e-6, 10e-6, 50e-6, 100e-6, 500e-6, 1e-3, 5e-3, 10e-3, 50e-3, 0.1, 0.5, 1, 5, 10, 60}

// Classic returns how many durations are not longer than each of [Bounds].
func (d *Distribution) Classic() (cumulative [len(Bounds)]uint64) {
	for ns, n := range d.sketch.Middles() {
		for i := len(Bounds) - 1; i >= 0 && float64(ns)/1e9 <= Bounds[i]; i-- {
			cumulative[i] += n
		}
	}
	return cumulative
}
