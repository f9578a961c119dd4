package causal

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/tick"
)

const (
	spreadSeconds = int(tick.SpreadStep / time.Second)
	// peakSeconds is the length of a peak: see [tally.peak].
	peakSeconds = 5
)

// losses is a ring of seconds. Each has the time, ns, lost by steps that ended in it. The ring is
// longer than the window by two bins of [tick.SpreadStep], so the oldest second and the newest are
// never neighbors.
type losses [(windowSeconds/spreadSeconds + 2) * spreadSeconds]float64

// add adds a loss of a step that ended at a time.
func (l *losses) add(ns int64, lost float64) { l[ns/int64(time.Second)%int64(len(l))] += lost }

// bin returns the loss in the bin of [tick.SpreadStep] that a time lies in.
func (l *losses) bin(ns int64) float64 {
	first := int(ns / int64(tick.SpreadStep) % int64(len(l)/spreadSeconds))
	return l.sum(first*spreadSeconds, spreadSeconds)
}

// sum returns the loss in n successive seconds from index first on.
func (l *losses) sum(first, n int) (sum float64) {
	for i := range n {
		sum += l[(first+i)%len(l)]
	}
	return sum
}

// burst returns the largest loss in two successive bins.
func (y *tally) burst() (most float64) {
	for first := 0; first < len(y.spread); first += spreadSeconds {
		most = max(most, y.spread.sum(first, 2*spreadSeconds))
	}
	return most
}

// peak returns the largest loss in peakSeconds successive seconds, ns. It is 0 if the worst step is
// longer than that: when a long step lost its time is not known.
func (y *tally) peak() (most float64) {
	if y.worst.length > peakSeconds*int64(time.Second) {
		return 0
	}
	for first := range y.spread {
		most = max(most, y.spread.sum(first, peakSeconds))
	}
	return most
}

// spread returns what a cause cost by time, for bins that lie completely in the window. It returns
// nil if the worst step is longer than a bin.
func (v *verdict) spread(y *tally) (out []tick.Loss) {
	if y.worst.length > int64(tick.SpreadStep) {
		return nil
	}
	const step = int64(tick.SpreadStep)
	seen := (v.s.newest - windowSeconds + 1) * int64(time.Second)
	for at := y.first.from / step * step; at < y.last.to()+1; at += step {
		if at >= seen {
			out = append(out, tick.Loss{Start: at, Lost: time.Duration(y.spread.bin(at))})
		}
	}
	return out
}

// spreadBoth adds up two losses by time, if both are known.
func spreadBoth(a, b []tick.Loss) []tick.Loss {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Clone(a)
	for _, x := range b {
		if i := slices.IndexFunc(out, func(o tick.Loss) bool { return o.Start == x.Start }); i >= 0 {
			out[i].Lost += x.Lost
			continue
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b tick.Loss) int { return cmp.Compare(a.Start, b.Start) })
	return out
}

// scaleSpread scales the loss by time. It has whole intervals only, so its sum may be less than the loss.
func (x *Finding) scaleSpread(times float64) {
	x.spread = slices.Clone(x.spread)
	for i := range x.spread {
		x.spread[i].Lost = time.Duration(times * float64(x.spread[i].Lost))
	}
}
