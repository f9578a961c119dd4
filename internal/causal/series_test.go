package causal

import "testing"

// Sampled steps represent others, but each long step represents only itself.
func TestLongStepsAreAllKept(t *testing.T) {
	s := &series{pid: 7, tid: 7, rng: 1}
	at := int64(1000e9)
	for i := range 200 {
		r := record{from: at, length: 4e6, kind: 1, nparts: 1}
		switch {
		case i == 100:
			r.length = longStep
		case i%3 == 0: // unusually long, too: more than are kept
			r.length = 6e6
		}
		s.push(&r, quotaOf(maxRecords))
		at += r.length
	}
	var all float64
	long := 0
	for _, x := range s.samples(nil) {
		all += x.weight
		if x.length == longStep {
			long++
			if x.weight != 1 {
				t.Errorf("it stands for %.1f steps", x.weight)
			}
		}
	}
	if long != 1 || all < 199.9 || all > 200.1 {
		t.Errorf("%d long steps, all stand for %.1f; want 1, 200", long, all)
	}
}

// In a second that begins with many short steps and ends with few long ones, the sample has
// the time of the long ones, whatever is drawn.
func TestFewLongStepsAmongManyShort(t *testing.T) {
	for seed := range uint64(500) {
		s := &series{pid: 7, tid: 7, rng: seed + 1}
		at := int64(1000e9)
		for i := range 260 {
			r := record{from: at, length: 40e3, kind: 1, nparts: 1}
			if i >= 200 {
				r.length = 10e6
			}
			s.push(&r, quotaOf(maxRecords))
			at += r.length
		}
		var slow float64
		for _, x := range s.samples(nil) {
			if x.length == 10e6 {
				slow += x.weight
			}
		}
		if slow < 59.9 || slow > 60.1 {
			t.Errorf("seed %d: the sample stands for %.1f long steps, want 60", seed, slow)
		}
	}
}
