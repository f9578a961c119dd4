package causal

import (
	"math"
	"slices"
)

// pace finds the baseline of waits that keep a pace: unless they have two levels, all of them are
// normal. If few steps wait, the levels are those of the steps with waits of the rule, however short.
// Steps that waited for a thread of unknown activity are ignored.
func (e *Engine) pace(steps []step, key baselineKey) waitBaseline {
	for _, counts := range []func(*record) bool{
		func(*record) bool { return true },
		func(r *record) bool { return e.hasWaits(r, key.rule) },
	} {
		var some []sample
		for i := range steps {
			if x := &steps[i]; !x.unknown && counts(x.record) {
				some = append(some, x.sample)
			}
		}
		if low := e.lowerPace(some, key); low != nil {
			return waitBaseline{known: true, ns: quantile(thin(low), 0.9)}
		}
	}
	return allNormal
}

// lowerPace returns the waits on the lower of two levels; nil: there are not two. A thread that keeps a
// pace waits less in steps that something else makes longer. These do not tell how long it usually waits.
func (e *Engine) lowerPace(steps []sample, key baselineKey) []weighted {
	for {
		waits := e.sums(steps, key)
		size := stretchSize(len(waits))
		l, ok := lowerLevel(waits, size)
		if !ok {
			return nil
		}
		var others []sample
		at := 0
		for _, i := range append(l.starts, len(steps)) {
			others = append(others, steps[at:i]...)
			at = i + size
		}
		normal := middleLength(others)
		l.starts = slices.DeleteFunc(l.starts, func(i int) bool { return middleLength(steps[i:i+size]) > normal })
		if len(l.starts) > 0 {
			return runsOf(waits, l.starts, size)
		}
		steps = others
	}
}

// middleLength returns the median length of steps, ns.
func middleLength(steps []sample) int64 {
	out := make([]weighted, len(steps))
	for i, x := range steps {
		out[i] = weighted{x.length, x.weight}
	}
	return quantile(out, 0.5)
}

// allNormal is a baseline that no wait exceeds.
var allNormal = waitBaseline{known: true, ns: math.MaxInt64 / 2}
