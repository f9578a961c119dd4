package diff

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// The test of a difference. A run is divided into batches long enough that neighbors are nearly
// independent; each is one observation: its sum per step. A few stalls are excluded. Welch's test
// then checks whether the means differ by more than a margin: a share of a step, and the drift
// within the calmer of the two runs. Holm's method bounds the probability of any false finding by
// alpha, for any number of tests.
const (
	alpha      = 0.01
	leastShare = 0.01 // of A's step: smaller differences are ignored
	mostBatch  = 48   // maximum batches of a run
	fewBatch   = 12   // minimum batches when merging for independence
	minBatch   = 5    // minimum batches for a test
	alike      = 0.2  // accepted correlation of neighbors
	quarters   = 4    // of a run, to measure its drift
	stallShare = 0.05 // of the batches: maximum share to exclude
	stallFar   = 8    // deviations from the median that make a stall
)

// batches divides n blocks of a run into equal parts.
type batches struct {
	n    int
	size int
	off  []bool // excluded blocks
	corr float64
}

// batched divides a run by the length of its steps.
func batched(s *Series) batches {
	n := len(s.Steps)
	b := batches{n: n, size: (n + mostBatch - 1) / mostBatch}
	for {
		b.size = max(b.size, 1)
		b.corr = neighbours(b.means(s, StepKey))
		if b.corr <= alike || n/(2*b.size) < fewBatch {
			break
		}
		b.size *= 2
	}
	far, at := stalls(b.means(s, StepKey)), -1 // of the batches with steps
	b.off = make([]bool, n)
	for from, to := range b.all() {
		if slices.Max(s.Steps[from:to]) > 0 {
			at++
		}
		for i := from; i < to; i++ {
			b.off[i] = at >= 0 && far[at]
		}
	}
	return b
}

// all returns the blocks [from, to) of each batch. The last batch includes a rest that is too short for its
// own.
func (b *batches) all() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < b.n; {
			to := from + b.size
			if b.n-to < b.size {
				to = b.n
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// sums returns the sums of a key and of the steps of each included batch; batches without a step
// are added to the previous one.
func (b *batches) sums(s *Series, k Key) (values, steps []float64) {
	v := s.Values[k]
	for from, to := range b.all() {
		if b.off != nil && b.off[from] {
			continue
		}
		var sum, n float64
		for j := from; j < to; j++ {
			if v != nil {
				sum += v[j]
			}
			n += s.Steps[j]
		}
		if n == 0 && len(steps) > 0 {
			values[len(values)-1] += sum
		} else {
			values, steps = append(values, sum), append(steps, n)
		}
	}
	return values, steps
}

// means returns a key per step, by batch.
func (b *batches) means(s *Series, k Key) []float64 {
	values, steps := b.sums(s, k)
	out := values[:0]
	for i, v := range values {
		if steps[i] > 0 {
			out = append(out, v/steps[i])
		}
	}
	return out
}

// mean returns a key per step over all included batches.
func (b *batches) mean(s *Series, k Key) float64 {
	values, steps := b.sums(s, k)
	var sum, n float64
	for i := range values {
		sum, n = sum+values[i], n+steps[i]
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// wander returns how much the quarters of a run differ in a key: the deviation of their means. It
// is 0 if there are too few batches.
func (b *batches) wander(s *Series, k Key) float64 {
	values, steps := b.sums(s, k)
	n := len(values)
	if n < 2*quarters {
		return 0
	}
	var means []float64
	for q := range quarters {
		var sum, count float64
		for i := q * n / quarters; i < (q+1)*n/quarters; i++ {
			sum, count = sum+values[i], count+steps[i]
		}
		if count > 0 {
			means = append(means, sum/count)
		}
	}
	_, variance := moments(means)
	return math.Sqrt(variance)
}

// neighbours returns the correlation of successive values, minus what chance contributes.
func neighbours(x []float64) float64 {
	n := len(x)
	if n < 4 {
		return 0
	}
	mean, variance := moments(x)
	if variance == 0 {
		return 0
	}
	sum := 0.0
	for i := 1; i < n; i++ {
		sum += (x[i] - mean) * (x[i-1] - mean)
	}
	return sum/(variance*float64(n-1)) + 1/float64(n)
}

func moments(x []float64) (mean, variance float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(max(len(x), 1))
	for _, v := range x {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(max(len(x)-1, 1))
}

// stalls marks values far above the others, if there are very few: a one-time event is no
// difference between runs.
func stalls(x []float64) []bool {
	out := make([]bool, len(x))
	if len(x) < 2*minBatch {
		return out
	}
	m := median(x)
	off := make([]float64, len(x))
	for i, v := range x {
		off[i] = math.Abs(v - m)
	}
	far := stallFar * max(1.4826*median(off), m*leastShare)
	n := 0
	for i, v := range x {
		if out[i] = v-m > far; out[i] {
			n++
		}
	}
	if n > max(1, int(stallShare*float64(len(x)))) {
		clear(out)
	}
	return out
}

func median(x []float64) float64 {
	v := slices.Sorted(slices.Values(x))
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[n/2] + v[(n-1)/2]) / 2
}

// Effect is the difference of a value per step between two runs.
type Effect struct {
	Key
	A, B float64 // per step: ns, or calls
	// Low and High are the 95 % confidence bounds of B - A.
	Low, High float64
	// P is the probability of a difference beyond the margin by chance, after Holm's correction for
	// several tests; 1 if it cannot be tested.
	P      float64
	Margin float64
	Found  bool // beyond the margin, and not by chance
}

// Delta returns B - A.
func (e *Effect) Delta() float64 { return e.B - e.A }

// side is one run under test.
type side struct {
	*Series
	batches
}

// test compares a key of two runs. A difference below least is no finding.
func test(a, b *side, k Key, least float64) Effect {
	e := Effect{Key: k, A: a.mean(a.Series, k), B: b.mean(b.Series, k), P: 1}
	e.Margin = max(least, min(a.wander(a.Series, k), b.wander(b.Series, k)))
	x, y := a.means(a.Series, k), b.means(b.Series, k)
	e.Low, e.High = e.Delta(), e.Delta()
	if len(x) < minBatch || len(y) < minBatch {
		e.Low, e.High = math.Inf(-1), math.Inf(1)
		return e
	}
	_, vx := moments(x)
	_, vy := moments(y)
	sx, sy := vx/float64(len(x))*inflated(x, a.corr), vy/float64(len(y))*inflated(y, b.corr)
	se := math.Sqrt(sx + sy)
	beyond := math.Abs(e.Delta()) - e.Margin
	if se == 0 {
		if beyond > 0 {
			e.P = 0
		}
		return e
	}
	df := (sx + sy) * (sx + sy) / (sx*sx/float64(len(x)-1) + sy*sy/float64(len(y)-1))
	wide := quantileT(0.975, df) * se
	e.Low, e.High = e.Low-wide, e.High+wide
	e.P = min(1, 2*(1-cdfT(beyond/se, df)))
	return e
}

// inflated returns the factor by which correlation of neighbors increases the variance of a mean:
// from the values' own correlation, or that of the steps.
func inflated(x []float64, steps float64) float64 {
	r := min(max(neighbours(x), steps, 0), 0.9)
	return (1 + r) / (1 - r)
}

// holm corrects the probabilities for the number of tests, and marks the findings.
func holm(all []*Effect) {
	slices.SortStableFunc(all, func(a, b *Effect) int { return cmp.Compare(a.P, b.P) })
	worst := 0.0
	for i, e := range all {
		worst = max(worst, min(1, e.P*float64(len(all)-i)))
		e.P = worst
		e.Found = e.P < alpha && math.Abs(e.Delta()) > e.Margin
	}
}

// cdfT returns the probability that a value of Student's distribution is below t.
func cdfT(t, df float64) float64 {
	tail := betaI(df/2, 0.5, df/(df+t*t)) / 2
	if t > 0 {
		return 1 - tail
	}
	return tail
}

// quantileT returns the value below which one of Student's distribution is with probability p.
func quantileT(p, df float64) float64 {
	lo, hi := -1e4, 1e4
	for range 100 {
		if mid := (lo + hi) / 2; cdfT(mid, df) < p {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// betaI is the regularized incomplete beta function, by its continued fraction.
func betaI(a, b, x float64) float64 {
	if x <= 0 || x >= 1 {
		return min(max(x, 0), 1)
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaI(b, a, 1-x)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log(1-x)) / a
	const tiny = 1e-300
	away := func(v float64) float64 { // away from zero
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/away(1-(a+b)*x/(a+1))
	f := d
	for i := 1; i < 300; i++ {
		m := float64(i)
		for _, n := range [...]float64{
			m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m)),
			-(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1)),
		} {
			d = 1 / away(1+n*d)
			c = away(1 + n/c)
			f *= c * d
		}
		if math.Abs(c*d-1) < 1e-14 {
			break
		}
	}
	return front * f
}
