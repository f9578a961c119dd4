package causal

import (
	"cmp"
	"math"
	"slices"
)

// maxSorted bounds what is sorted for a quantile: of more, an even choice is taken.
const maxSorted = 512

// weighed is a value and how often it counts.
type weighed struct {
	v int64
	w float64
}

// thin returns at most maxSorted of the values, evenly chosen. It keeps their order.
func thin(x []weighed) []weighed {
	if len(x) <= maxSorted {
		return x
	}
	for i := range maxSorted {
		x[i] = x[i*len(x)/maxSorted]
	}
	return x[:maxSorted]
}

// quantile returns the value that the share q of the weight is not above. It sorts
// x. It is zero for none.
func quantile(x []weighed, q float64) int64 {
	if len(x) == 0 {
		return 0
	}
	slices.SortFunc(x, func(a, b weighed) int { return cmp.Compare(a.v, b.v) })
	var sum float64
	for i := range x {
		sum += x[i].w
	}
	left := q * sum
	for i := range x {
		if left -= x[i].w; left <= 1e-9*sum {
			return x[i].v
		}
	}
	return x[len(x)-1].v
}

// spread returns half the width of the middle half of x, which quantile has sorted.
func spread(x []weighed) int64 {
	if len(x) < 4 {
		return 0
	}
	return (x[len(x)*3/4].v - x[len(x)/4].v) / 2
}

// Two levels are looked for in about levelBins stretches of values that follow each other, of
// leastBin to mostBin each.
const (
	levelBins = 16
	leastBin  = 6
	mostBin   = 16
)

// levels returns the lower one of two levels that values, in order of time, are on for a
// while each; ok is false where they are not clearly on two. The fewer values a stretch
// has, the further apart the middles of two are by chance: by waits for a disk, which are
// often short and sometimes long, hardly more than here.
func levels(x []weighed) (lower int64, ok bool) {
	size := min(max(len(x)/levelBins, leastBin), mostBin)
	var bins []int64
	for ; len(x) >= size; x = x[size:] {
		bins = append(bins, quantile(slices.Clone(x[:size]), 0.5))
	}
	if len(bins) < 5 {
		return 0, false
	}
	slices.Sort(bins)
	low, high := float64(bins[len(bins)/10]), float64(bins[len(bins)-1-len(bins)/10])
	n, _ := slices.BinarySearch(bins, int64(math.Sqrt(low*high)))
	return bins[n/2], high >= low*10/math.Sqrt(float64(size))
}
