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
