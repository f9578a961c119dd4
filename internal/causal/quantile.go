package causal

import (
	"cmp"
	"math"
	"slices"
)

// maxSorted bounds the values sorted for a quantile; longer inputs are sampled evenly.
const maxSorted = 512

// weighted is a value with its weight.
type weighted struct {
	v int64
	w float64
}

// thin returns at most maxSorted of the values, sampled evenly. It keeps their order.
func thin(x []weighted) []weighted {
	if len(x) <= maxSorted {
		return x
	}
	for i := range maxSorted {
		x[i] = x[i*len(x)/maxSorted]
	}
	return x[:maxSorted]
}

// quantile returns the smallest value that at least the share q of the weight does not exceed. It
// sorts x. It is 0 for an empty x.
func quantile(x []weighted, q float64) int64 {
	if len(x) == 0 {
		return 0
	}
	slices.SortFunc(x, func(a, b weighted) int { return cmp.Compare(a.v, b.v) })
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

// spread returns half the interquartile range of x, which quantile has sorted.
func spread(x []weighted) int64 {
	if len(x) < 4 {
		return 0
	}
	return (x[len(x)*3/4].v - x[len(x)/4].v) / 2
}

// Levels are searched in about levelBins runs of successive values, of leastBin to mostBin each.
const (
	levelBins = 16
	leastBin  = 6
	mostBin   = 16
	leastBins = 5 // needed for a result
)

// levels returns the lower of two levels that values in time order stay on for a while each. ok is
// false if there are not clearly two. The fewer values a run has, the further its median varies by
// chance. The threshold fits waits for a disk, which are often short and sometimes long.
func levels(x []weighted) (lower int64, ok bool) {
	bins, size := stretches(x)
	if len(bins) < leastBins {
		return 0, false
	}
	low, high := float64(bins[len(bins)/10]), float64(bins[len(bins)-1-len(bins)/10])
	n, _ := slices.BinarySearch(bins, int64(math.Sqrt(low*high)))
	return bins[n/2], high >= low*apart(size)
}

// lowLevel is the lower of two levels that values in time order stay on for a while each.
type lowLevel struct {
	starts []int   // indexes of its runs of size values
	below  float64 // mean of a run, below which it is on this level
}

// lowerLevel returns the lower level where values clearly stay on a higher one for a while, by the means of
// runs of size values. ok is false if there is no higher level, or it may be chance: some values are high at
// all times.
func lowerLevel(x []weighted, size int) (l lowLevel, ok bool) {
	var means []float64
	var within float64 // variance
	for rest := x; len(rest) >= size; rest = rest[size:] {
		mean, variance := moments(rest[:size])
		means = append(means, mean)
		within += variance
	}
	n := len(means)
	if n < leastBins {
		return l, false
	}
	sorted := slices.Sorted(slices.Values(means))
	low, high := sorted[n/10], sorted[n-2] // a single run is no level
	chance := surely * math.Sqrt(within/float64(n*size))
	if high < max(low*apart(size), low+chance, leastGrowth) {
		return l, false
	}
	l.below = (low + high) / 2
	for i, mean := range means {
		if mean < l.below {
			l.starts = append(l.starts, i*size)
		}
	}
	return l, true
}

// runsOf returns the values of runs of size values that start at these indexes.
func runsOf[T any](x []T, starts []int, size int) (out []T) {
	for _, i := range starts {
		out = append(out, x[i:i+size]...)
	}
	return out
}

// smooth returns, for each value, the mean of a run of size values around it. size is at most len(x).
func smooth(x []weighted, size int) []int64 {
	sums, weights := make([]float64, len(x)+1), make([]float64, len(x)+1)
	for i, v := range x {
		sums[i+1], weights[i+1] = sums[i]+v.w*float64(v.v), weights[i]+v.w
	}
	out := make([]int64, len(x))
	for i := range out {
		from := min(max(i-size/2, 0), len(x)-size)
		out[i] = int64((sums[from+size] - sums[from]) / (weights[from+size] - weights[from]))
	}
	return out
}

// highest returns, for each value, the highest within a distance.
func highest(x []int64, distance int) []int64 {
	out := make([]int64, len(x))
	for i := range x {
		out[i] = slices.Max(x[max(i-distance, 0):min(i+distance+1, len(x))])
	}
	return out
}

// surely is the number of standard errors that a difference beyond chance has.
const surely = 4

func moments(x []weighted) (mean, variance float64) {
	var all float64
	for _, v := range x {
		all += v.w
		mean += v.w * float64(v.v)
	}
	mean /= all
	for _, v := range x {
		variance += v.w / all * (float64(v.v) - mean) * (float64(v.v) - mean)
	}
	return mean, variance
}

// stretches returns the medians of runs of successive values, in ascending order, and the size of a
// run.
func stretches(x []weighted) (middles []int64, size int) {
	size = stretchSize(len(x))
	for ; len(x) >= size; x = x[size:] {
		middles = append(middles, quantile(slices.Clone(x[:size]), 0.5))
	}
	slices.Sort(middles)
	return middles, size
}

func stretchSize(values int) int { return min(max(values/levelBins, leastBin), mostBin) }

// apart returns the smallest ratio between the two levels.
func apart(size int) float64 { return 10 / math.Sqrt(float64(size)) }
