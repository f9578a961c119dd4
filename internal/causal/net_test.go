package causal

import "testing"

// Where the GPU hides the small excess of most steps, steps with a much larger excess lose all of
// their extra length.
func TestLargeExcessSpeaksForItself(t *testing.T) {
	var steps []step
	for i := range 200 {
		x := step{sum: int64(i%40+1) * ms / 20, sample: sample{record: &record{length: 10*ms + int64(i%7)*ms/100}, weight: 1}}
		if i%20 == 0 {
			x.sum = 100 * ms
			x.length += 95 * ms
		}
		steps = append(steps, x)
	}
	e := New(0)
	n := e.normal(steps, &series{})
	for i := range steps {
		x := &steps[i]
		n.net(x, 0)
		if want := int64(95 * ms); x.sum == 100*ms && (x.lost < want*98/100 || x.lost > want*102/100) {
			t.Errorf("step %d lost %d ns, want %d", i, x.lost, want)
		} else if x.sum < 100*ms && x.lost > 0 {
			t.Errorf("step %d lost %d ns of a hidden excess of %d", i, x.lost, x.sum)
		}
	}
}

// The interval of the closing call's loss is not that of other losses.
func TestBoundsBy(t *testing.T) {
	x := step{sum: 10 * ms, critical: 4 * ms, lateMin: 0, lateMax: 4 * ms, min: 6 * ms, max: 10 * ms}
	for _, tt := range []struct {
		name   string
		of     excess
		lo, hi int64
	}{
		{"other losses are known", excess{ns: 6 * ms}, 6 * ms, 6 * ms},
		{"half of them is of an unknown waker", excess{ns: 3 * ms, unknown: 255}, 0, 3 * ms},
		{"the closing call's loss is not", excess{ns: 4 * ms, critical: true}, 0, 4 * ms},
	} {
		if lo, hi := x.boundsBy(tt.of); int64(lo) != tt.lo || int64(hi) != tt.hi {
			t.Errorf("%s: %v to %v, want %v to %v", tt.name, lo, hi, tt.lo, tt.hi)
		}
	}
}
