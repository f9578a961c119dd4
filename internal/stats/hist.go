package stats

import (
	"math"
	"math/bits"
)

// HistBuckets is the size of the kernel's histogram (bpf/abi.h). The last
// bucket begins at 2^42 - 2^38 ns, 69 minutes, and has no end.
const HistBuckets = 320

// HistError is the largest relative error of [Hist.Quantile], for durations
// under 69 minutes.
const HistError = 1.0 / 16

const histSub = 8 // buckets an octave

// Hist is the kernel's histogram of durations: 8 buckets an octave, counted for every call that
// returned. Durations under 16 ns have a bucket each.
type Hist [HistBuckets]uint64

// HistIndex returns the bucket of a duration in nanoseconds.
func HistIndex(ns uint64) int {
	if ns < histSub {
		return int(ns)
	}
	e := bits.Len64(ns) - 1
	return min((e-2)*histSub+int(ns>>(e-3))&(histSub-1), HistBuckets-1)
}

// HistBounds returns the range [lo, hi) of bucket i, in nanoseconds. The last
// bucket's hi is the largest uint64.
func HistBounds(i int) (lo, hi uint64) {
	switch {
	case i < histSub:
		lo, hi = uint64(i), uint64(i)+1
	default:
		width := uint64(1) << (i/histSub - 1)
		lo = uint64(histSub+i%histSub) * width
		hi = lo + width
	}
	if i == HistBuckets-1 {
		hi = math.MaxUint64
	}
	return lo, hi
}

// Record counts a duration weight times; negative ones count as zero.
func (h *Hist) Record(ns int64, weight uint32) {
	h[HistIndex(uint64(max(ns, 0)))] += uint64(weight)
}

// Count returns the number of durations in the histogram.
func (h *Hist) Count() uint64 {
	var n uint64
	for _, c := range h {
		n = satAdd(n, c)
	}
	return n
}

// Add adds the counts of o.
func (h *Hist) Add(o *Hist) {
	for i, c := range o {
		h[i] = satAdd(h[i], c)
	}
}

// Sub subtracts the counts of o, an earlier state of h. No count goes below zero.
func (h *Hist) Sub(o *Hist) {
	for i, c := range o {
		h[i] -= min(c, h[i])
	}
}

// Quantile returns the duration in nanoseconds that the share q of all durations does not exceed:
// the middle of the bucket with the nearest rank, within [HistError] of the true value. It returns
// the lower bound for the last bucket and zero for an empty histogram.
func (h *Hist) Quantile(q float64) int64 {
	total := h.Count()
	if total == 0 {
		return 0
	}
	left := uint64(1)
	if q > 0 {
		left = rank(q, total)
	}
	for i, c := range h {
		if c < left {
			left -= c
			continue
		}
		lo, hi := HistBounds(i)
		if i == HistBuckets-1 {
			return int64(lo)
		}
		return int64(lo + (hi-1-lo)/2)
	}
	return 0
}
