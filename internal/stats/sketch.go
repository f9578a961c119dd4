package stats

import (
	"iter"
	"math"
	"math/bits"
)

// SketchError is the largest relative error of [Sketch.Quantile].
const SketchError = 1.0 / (2 * sketchSub)

const (
	sketchBits    = 6
	sketchSub     = 1 << sketchBits     // buckets an octave
	sketchOctaves = 63 - sketchBits + 1 // 0 holds 0-63 exactly, i>0 holds [2^(i+5), 2^(i+6))
)

// Sketch is a distribution of durations in nanoseconds. Its quantiles are
// within [SketchError] of a value that was added, the smallest and the largest
// are exact. The zero value is an empty sketch.
//
// It stores counters only for octaves that occur: 512 bytes each, and most
// operations see one to three.
type Sketch struct {
	count    uint64
	sum      uint64
	min, max int64
	at       [sketchOctaves]uint8 // 1 + index into rows, 0 for none
	rows     [][sketchSub]uint64
}

// Add counts a duration weight times. Negative durations count as zero.
func (s *Sketch) Add(ns int64, weight uint32) {
	if weight == 0 {
		return
	}
	if ns < 0 {
		ns = 0
	}
	oct, sub := sketchBucket(uint64(ns))
	row := s.at[oct]
	if row == 0 {
		row = s.grow(oct)
	}
	s.rows[row-1][sub] += uint64(weight)
	s.note(ns, ns, uint64(weight), uint64(ns)*uint64(weight), uint64(ns)>>31)
}

// note adds to the totals. big is nonzero if sum may have overflowed.
func (s *Sketch) note(lo, hi int64, count, sum, big uint64) {
	if s.count == 0 || lo < s.min {
		s.min = lo
	}
	if hi > s.max {
		s.max = hi
	}
	s.count = satAdd(s.count, count)
	if big != 0 {
		sum = satMul(uint64(hi), count)
	}
	s.sum = satAdd(s.sum, sum)
}

// Merge adds o. The result is the same as if all of its values had been added to s.
func (s *Sketch) Merge(o *Sketch) {
	if o == nil || o.count == 0 {
		return
	}
	for oct, from := range o.at {
		if from == 0 {
			continue
		}
		to := s.at[oct]
		if to == 0 {
			to = s.grow(oct)
		}
		// Taken after grow, which moves the rows, and o may be s itself.
		src, dst := &o.rows[from-1], &s.rows[to-1]
		for i, n := range src {
			dst[i] = satAdd(dst[i], n)
		}
	}
	s.note(o.min, o.max, o.count, o.sum, 0)
}

// Sub subtracts o, which must be an earlier state of s. The smallest and the largest of the rest
// are then only as precise as quantiles.
func (s *Sketch) Sub(o *Sketch) {
	if o == nil || o.count == 0 {
		return
	}
	lowest, highest := int64(-1), int64(0)
	for oct, row := range s.at {
		if row == 0 {
			continue
		}
		for sub := range s.rows[row-1] {
			n := &s.rows[row-1][sub]
			if was := o.at[oct]; was != 0 {
				*n -= min(o.rows[was-1][sub], *n)
			}
			if *n == 0 {
				continue
			}
			lo, hi := sketchBounds(oct, sub)
			if lowest < 0 {
				lowest = lo
			}
			highest = hi
		}
	}
	s.count -= min(o.count, s.count)
	s.sum -= min(o.sum, s.sum)
	if s.count == 0 || lowest < 0 {
		s.count, s.sum, s.min, s.max = 0, 0, 0, 0
		return
	}
	s.min, s.max = max(lowest, s.min), min(highest, s.max)
}

// grow makes room for an octave and returns its value for at.
func (s *Sketch) grow(oct int) uint8 {
	s.rows = append(s.rows, [sketchSub]uint64{})
	s.at[oct] = uint8(len(s.rows))
	return s.at[oct]
}

// Quantile returns the duration in nanoseconds that the share q of all durations does not exceed
// (nearest rank). It is exact for q <= 0, the smallest, and q >= 1, the largest, and zero for an
// empty sketch.
func (s *Sketch) Quantile(q float64) int64 {
	switch {
	case s.count == 0:
		return 0
	case !(q > 0):
		return s.min
	case q >= 1:
		return s.max
	}
	left := rank(q, s.count)
	for oct, row := range s.at {
		if row == 0 {
			continue
		}
		for sub, n := range &s.rows[row-1] {
			if n < left {
				left -= n
				continue
			}
			lo, hi := sketchBounds(oct, sub)
			return min(max(lo+(hi-lo)/2, s.min), s.max)
		}
	}
	return s.max
}

// Count returns the number of durations, by weight.
func (s *Sketch) Count() uint64 { return s.count }

// Sum returns the sum of all durations in nanoseconds; it saturates at the largest uint64 (584
// years).
func (s *Sketch) Sum() uint64 { return s.sum }

// Min returns the shortest duration, or zero.
func (s *Sketch) Min() int64 { return s.min }

// Max returns the longest duration, or zero.
func (s *Sketch) Max() int64 { return s.max }

// Reset empties the sketch and keeps its memory.
func (s *Sketch) Reset() {
	clear(s.rows)
	s.count, s.sum, s.min, s.max = 0, 0, 0, 0
}

// Clone returns a copy that shares nothing with s, which may be nil.
func (s *Sketch) Clone() *Sketch {
	if s == nil {
		return nil
	}
	c := *s
	c.rows = append([][sketchSub]uint64(nil), s.rows...)
	return &c
}

// sketchBucket returns the bucket of a duration.
func sketchBucket(v uint64) (oct, sub int) {
	if v < sketchSub {
		return 0, int(v)
	}
	e := bits.Len64(v) - 1
	return e - sketchBits + 1, int(v>>(e-sketchBits)) & (sketchSub - 1)
}

// sketchBounds returns the smallest and the largest duration of a bucket.
func sketchBounds(oct, sub int) (lo, hi int64) {
	if oct == 0 {
		return int64(sub), int64(sub)
	}
	width := int64(1) << (oct - 1)
	lo = int64(sketchSub+sub) * width
	return lo, lo + (width - 1)
}

// rank returns the nearest rank of q among n, from 1. The product is rounded if only float64's own
// error keeps it from being an integer.
func rank(q float64, n uint64) uint64 {
	r := q * float64(n)
	if whole := math.Round(r); math.Abs(r-whole) <= 1e-9*r {
		r = whole
	}
	r = math.Ceil(r)
	switch {
	case r < 1:
		return 1
	case r >= float64(n):
		return n
	}
	return uint64(r)
}

func satAdd(a, b uint64) uint64 {
	if c := a + b; c >= a {
		return c
	}
	return math.MaxUint64
}

func satMul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return math.MaxUint64
	}
	return lo
}

// Middles yields the middle of each nonempty bucket, in nanoseconds and in ascending order, with
// its count. The middle is between the smallest and the largest duration, as in [Sketch.Quantile].
func (s *Sketch) Middles() iter.Seq2[int64, uint64] {
	return func(yield func(int64, uint64) bool) {
		for oct, row := range s.at {
			if row == 0 {
				continue
			}
			for sub, n := range &s.rows[row-1] {
				if n == 0 {
					continue
				}
				lo, hi := sketchBounds(oct, sub)
				if !yield(min(max(lo+(hi-lo)/2, s.min), s.max), n) {
					return
				}
			}
		}
	}
}
