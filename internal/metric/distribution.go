package metric

import (
	"math"
	"sync"

	"ingero/internal/stats"
)

// Distribution is an immutable distribution of durations. It is safe for concurrent use.
type Distribution struct {
	sketch *stats.Sketch
	once   sync.Once
	exp    Exponential
}

// Count returns the number of durations.
func (d *Distribution) Count() uint64 { return d.sketch.Count() }

// Sum returns the sum of the durations, in seconds.
func (d *Distribution) Sum() float64 { return float64(d.sketch.Sum()) / 1e9 }

// Min returns the shortest duration, in seconds.
func (d *Distribution) Min() float64 { return float64(d.sketch.Min()) / 1e9 }

// Max returns the longest duration, in seconds.
func (d *Distribution) Max() float64 { return float64(d.sketch.Max()) / 1e9 }

// Exponential is a distribution in exponential buckets, as in native histograms of Prometheus and
// exponential histograms of OpenTelemetry. Prometheus's bucket i holds the seconds in
// (2^((i-1)/2^Scale), 2^(i/2^Scale)]; OpenTelemetry's number for it is i-1.
type Exponential struct {
	Scale int32
	Zero  uint64 // durations of 0
	// First is the number of the first bucket, as in Prometheus; Counts are consecutive from there.
	First  int32
	Counts []uint64
}

// scale gives 16 buckets an octave: a value that is read from them is within 5 % of the sketch's. Sums
// over a fleet's histograms take as long as they have buckets.
const scale = 4

// Exponential returns the distribution in exponential buckets. A sketch's bucket is counted where
// its middle lies. There are fewer than 64 octaves, so at most 1,024 buckets.
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

// bucketOf returns the bucket that contains seconds.
func bucketOf(seconds float64) int32 {
	return int32(math.Ceil(math.Log2(seconds) * (1 << scale)))
}

// Bounds are the upper bounds of classic histograms' buckets, in seconds; one more bucket is
// unbounded.
var Bounds = [...]float64{1e-6, 5e-6, 10e-6, 50e-6, 100e-6, 500e-6, 1e-3, 5e-3, 10e-3, 50e-3, 0.1, 0.5, 1, 5, 10, 60}

// Classic returns how many durations are at most each of [Bounds].
func (d *Distribution) Classic() (cumulative [len(Bounds)]uint64) {
	for ns, n := range d.sketch.Middles() {
		for i := len(Bounds) - 1; i >= 0 && float64(ns)/1e9 <= Bounds[i]; i-- {
			cumulative[i] += n
		}
	}
	return cumulative
}
