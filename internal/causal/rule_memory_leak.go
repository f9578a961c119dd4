package causal

import (
	"fmt"

	"ingero/internal/govern"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const (
	leakSeconds = 3        // minimum number of seconds, each with growth
	leakBytes   = 64 << 20 // minimum growth
	leakShare   = 0.10     // minimum growth, as a share of the memory held before
	leakEven    = 2.5      // largest ratio of the growth of two seconds
	leakFilled  = 1 / 2.   // of the growth: copied to the GPU meanwhile, as weights are
	leakSpan    = 30       // seconds to examine
)

var memoryLeak = Rule{
	Name: "memory-leak", Sees: govern.QuickTimes, Rests: govern.QuickTimes, Needs: NeedState, Share: 0.01, Problems: []string{"10", "3"},
	Doc:  "The job holds more GPU memory every second. It frees none of it, copies no data from the host into it, and will run out.",
	Find: eachProcess(2e9, func(_ *Window, b *ProcessHistory) (Finding, bool) { return leak(b) }),
}

// leak looks for even growth up to the last second.
func leak(b *ProcessHistory) (x Finding, ok bool) {
	s := b.Seconds[max(len(b.Seconds)-leakSpan, 0):]
	last := len(s) - 1
	if last > 0 && s[last].To-s[last].From < 5e8 { // too short
		last--
	}
	first := last
	var least, most uint64
	for ; first > 0; first-- {
		a, z := &s[first-1], &s[first]
		if z.Memory.GPU.Bytes <= a.Memory.GPU.Bytes || a.From == b.First { // the first second allocates what the job needs
			break
		}
		grown := z.Memory.GPU.Bytes - a.Memory.GPU.Bytes
		if least == 0 {
			least, most = grown, grown
		}
		if lo, hi := min(least, grown), max(most, grown); float64(hi) > leakEven*float64(lo) {
			break
		}
		least, most = min(least, grown), max(most, grown)
	}
	if last-first < max(leakSeconds, last/2) {
		return x, false
	}
	a, z := &s[first], &s[last]
	grown := z.Memory.GPU.Bytes - a.Memory.GPU.Bytes
	allocs, frees := z.Memory.Allocs-a.Memory.Allocs, z.Memory.Frees-a.Memory.Frees
	part := ProcessHistory{Seconds: s[first : last+1]}
	copied := part.delta(func(c *tick.Copy) bool { return c.Dir == tick.CopyHostToDevice })
	filled := copied.Bytes
	if areBatches(&copied, grown, allocs, part.Seconds) {
		filled = 0
	}
	perSecond := float64(grown) / (float64(z.To-a.To) / 1e9)
	switch {
	case grown < leakBytes, float64(grown) < leakShare*float64(a.Memory.GPU.Bytes), allocs < 3*leakSeconds:
		return x, false
	case frees > 0 && uint64(least) < (z.Memory.GPU.Peak-min(z.Memory.GPU.Bytes, z.Memory.GPU.Peak)): // memory was higher before: it comes and goes
		return x, false
	case float64(filled) > leakFilled*float64(grown):
		return x, false
	}
	return Finding{
		PID: b.PID, From: a.To, To: z.To, Severity: tick.Medium, Confidence: 0.8,
		Baseline: "memory that stays level from step to step",
		Culprits: []tick.Culprit{{What: fmt.Sprintf("%s a second; %s held now", bytesText(uint64(perSecond)), bytesText(z.Memory.GPU.Bytes))}},
		Timeline: []tick.Moment{
			moment(a.To, "CUDA", "%s held on the GPU", bytesText(a.Memory.GPU.Bytes)),
			moment(z.To, "CUDA", "%s held: %d allocations and %d frees since", bytesText(z.Memory.GPU.Bytes), allocs, frees),
		},
	}, true
}

// areBatches reports whether copies to the GPU are batches: they are small beside the allocations, and
// the job launches more kernels than copies, or a graph, which may be many kernels, each second. Batches do
// not fill the memory that is allocated meanwhile. Weights may be small, too, but hardly a kernel runs while
// they are loaded.
func areBatches(copied *tick.Copy, grown, allocs uint64, seconds []Second) bool {
	var kernels uint64
	graphs := true
	for i := 1; i < len(seconds); i++ {
		s := &seconds[i]
		kernels += s.callsOf(events.ClassLaunch)
		graphs = graphs && s.Graphs.Launches > seconds[i-1].Graphs.Launches
	}
	return float64(copied.Bytes)*float64(allocs) < leakFilled*float64(grown)*float64(copied.Count) && (graphs || kernels > copied.Count)
}
