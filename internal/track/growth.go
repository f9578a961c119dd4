package track

import (
	"math"
	"slices"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	samples     = 32                 // lowest levels that are kept
	firstSpan   = int64(1e9)         // ns: the first bin; it doubles when all are full
	enoughTime  = int64(60e9)        // ns, minimum for an estimate
	enoughLevel = 12                 // samples, minimum for an estimate
	leakFrom    = float64(16 << 20)  // bytes of growth that are notable
	leakShare   = 0.01               // notable share of the held memory
	z99         = 2.5758293035489004 // of the normal distribution, two-sided
)

// growth keeps the lowest memory level of equal time bins since the first allocation: memory freed
// before a bin ends is no growth.
type growth struct {
	levels [samples]uint64
	n      int   // closed bins
	span   int64 // ns
	from   int64 // Unix ns: start of the open bin; 0: nothing yet
	low    uint64
}

// level records the memory held up to a time.
func (g *growth) level(at int64, held uint64) {
	if g.from == 0 {
		g.from, g.span, g.low = at, firstSpan, held
		return
	}
	for at-g.from >= g.span {
		if g.n == samples {
			g.halve()
			continue
		}
		g.levels[g.n] = g.low
		g.n++
		g.from += g.span
		g.low = held
	}
}

// floor records the memory held from now on.
func (g *growth) floor(held uint64) { g.low = min(g.low, held) }

// halve merges pairs of bins. The open bin becomes the first half of a larger one.
func (g *growth) halve() {
	for i := range samples / 2 {
		g.levels[i] = min(g.levels[2*i], g.levels[2*i+1])
	}
	g.n = samples / 2
	g.span *= 2
}

// estimate returns the slope of the levels: the median slope of all pairs, with bounds from the
// ranks of Kendall's tau (Sen 1968). The first levels, in which a program builds up what it needs,
// affect it only by their share.
func (g *growth) estimate(held uint64) tick.Growth {
	over := int64(g.n) * g.span
	if g.n < enoughLevel || over < enoughTime {
		return tick.Growth{}
	}
	var slopes [samples * (samples - 1) / 2]float64
	k := 0
	perMinute := 60e9 / float64(g.span)
	for i := range g.n {
		for j := i + 1; j < g.n; j++ {
			slopes[k] = (float64(g.levels[j]) - float64(g.levels[i])) / float64(j-i) * perMinute
			k++
		}
	}
	all := slopes[:k]
	slices.Sort(all)
	n := float64(g.n)
	c := z99 * math.Sqrt(n*(n-1)*(2*n+5)/18)
	low := max(int((float64(k)-c)/2), 0)
	high := min(int((float64(k)+c)/2)+1, k-1)
	out := tick.Growth{PerMinute: (all[(k-1)/2] + all[k/2]) / 2, Low: all[low], High: all[high], Over: over}
	grown := out.Low * float64(over) / 60e9
	late := float64(g.levels[g.n-1]) - float64(g.levels[g.n*3/4-1])
	out.Leak = out.Low > 0 && late > 0 && grown >= max(leakFrom, leakShare*float64(held))
	return out
}

// oom takes in an allocation that failed for lack of memory.
func (m *memory) oom(c *events.Call, size uint64, sized bool) {
	m.OOMs++
	o := tick.OOM{Time: c.End(), Op: c.Op, Device: c.Device, Live: m.GPU.Bytes, Peak: m.GPU.Peak, Holes: -1}
	if sized {
		o.Size = size
		o.Fragmented = m.inexact == 0 && size > 0 && m.GPU.Bytes+size <= m.GPU.Peak
	}
	if m.inexact == 0 {
		o.Holes = m.ranges.holes()
	}
	m.LastOOM = o
}
