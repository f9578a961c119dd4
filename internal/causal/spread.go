package causal

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/stats"
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

// sum returns the loss in n successive seconds from index first on.
func (l *losses) sum(first, n int) (sum float64) {
	for i := range n {
		sum += l[(first+i)%len(l)]
	}
	return sum
}

// burst returns the largest loss in two successive bins.
func (y *tally) burst() (most float64) {
	for first := 0; first < len(y.seconds); first += spreadSeconds {
		most = max(most, y.seconds.sum(first, 2*spreadSeconds))
	}
	return most
}

// peak returns the largest loss in peakSeconds successive seconds, ns. It is 0 if the worst step is
// longer than that: when a long step lost its time is not known.
func (y *tally) peak() (most float64) {
	if y.worst.length > peakSeconds*int64(time.Second) {
		return 0
	}
	for first := range y.seconds {
		most = max(most, y.seconds.sum(first, peakSeconds))
	}
	return most
}

// bins is a loss by bin of [tick.SpreadStep], in order of time. It is nil if only the sum is known.
type bins []tick.Loss

// add adds the loss of a step, ns: evenly to the bins that begin in the step, or else to the bin in which it
// lies. So no earlier step of the thread has a loss in a bin that begins after a step's start.
func (b *bins) add(from, to int64, lost float64) {
	const step = int64(tick.SpreadStep)
	last := stats.Floor(to, step)
	first := min(stats.Floor(from, step)+step, last)
	each := time.Duration(lost / float64((last-first)/step+1))
	for at := first; at <= last; at += step {
		b.put(tick.Loss{Start: at, Lost: each})
	}
}

func (b *bins) put(x tick.Loss) {
	i, ok := b.find(x.Start)
	if !ok {
		*b = slices.Insert(*b, i, tick.Loss{Start: x.Start})
	}
	(*b)[i].Lost += x.Lost
}

func (b *bins) find(start int64) (int, bool) {
	return slices.BinarySearchFunc(*b, start, func(x tick.Loss, start int64) int { return cmp.Compare(x.Start, start) })
}

func (b bins) sum() (ns int64) {
	for _, x := range b {
		ns += int64(x.Lost)
	}
	return ns
}

// whole returns the bins of a finding for which no step has left the window: those that begin in the
// window, or after the start of the finding's first step.
func (w *Window) whole(x *Finding) (out bins) {
	if len(x.spread) == 0 {
		return nil
	}
	seen := w.Now() - windowSeconds*1e9
	if s := w.e.series[x.TID]; s != nil {
		seen = max(seen, (s.newest-windowSeconds+1)*1e9)
	}
	const step = int64(tick.SpreadStep)
	for at := stats.Floor(x.From, step); at <= x.To; at += step {
		if at <= x.From && at < seen {
			continue
		}
		l := tick.Loss{Start: at}
		if i, ok := x.spread.find(at); ok {
			l.Lost = x.spread[i].Lost
		}
		out = append(out, l)
	}
	return out
}

// spreadBoth adds up two losses by time, if both are known.
func spreadBoth(a, b bins) bins {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	out := slices.Clone(a)
	for _, x := range b {
		out.put(x)
	}
	return out
}

// scale scales the loss.
func (x *Finding) scale(times float64) {
	for _, ns := range []*int64{&x.Lost, &x.Min, &x.Max} {
		*ns = int64(times * float64(*ns))
	}
	x.scaleSpread(times)
}

// scaleSpread scales the loss by time. It has whole bins only, so its sum may be less than the loss.
func (x *Finding) scaleSpread(times float64) {
	x.spread = slices.Clone(x.spread)
	for i := range x.spread {
		x.spread[i].Lost = time.Duration(times * float64(x.spread[i].Lost))
	}
}

// fitSpread scales the loss by time to the loss.
func (x *Finding) fitSpread() {
	if sum := x.spread.sum(); sum > 0 {
		x.scaleSpread(float64(x.Lost) / float64(sum))
	}
}
