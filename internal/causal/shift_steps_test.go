package causal

import "testing"

// Only steps with about as many launches show that the GPU takes longer, and the loss is that of all
// steps of the kind.
func TestShiftsOfStepsWithOtherLaunches(t *testing.T) {
	type phase struct {
		until    int64    // since the start
		launches []uint32 // in turns
		gpu      int64    // of a launch
	}
	for _, tt := range []struct {
		name   string
		phases []phase
		want   int   // shifts
		lost   int64 // of all
	}{
		{"a model that grows", []phase{{5 * s1, []uint32{4}, 2 * ms}, {10 * s1, []uint32{5}, 2 * ms}, {15 * s1, []uint32{6}, 2 * ms}}, 0, 0},
		{"a GPU that gets slower", []phase{{5 * s1, []uint32{4}, 2 * ms}, {10 * s1, []uint32{4}, 3 * ms}}, 1, 5 * s1 / 3},
		{"two sorts of steps", []phase{{5 * s1, []uint32{4, 7}, 2 * ms}, {10 * s1, []uint32{4, 7}, 3 * ms}}, 1, 5 * s1 / 3},
		{"another number in each step", []phase{{5 * s1, []uint32{33, 61, 47, 40, 52, 36}, ms / 5}, {10 * s1, []uint32{58, 34, 49, 41, 55, 38}, 3 * ms / 10}}, 1, 5 * s1 / 3},
		{"two sorts of steps, and a second shift", []phase{{4 * s1, []uint32{4, 7}, 2 * ms}, {12 * s1, []uint32{4, 7}, 3 * ms}, {13 * s1, []uint32{4, 7}, 2 * ms}, {17 * s1, []uint32{4, 7}, 3 * ms}}, 2, 4 * s1},
		{"a model that grows in a slower GPU", []phase{{5 * s1, []uint32{4}, 2 * ms}, {10 * s1, []uint32{4}, 3 * ms}, {14 * s1, []uint32{5}, 3 * ms}}, 1, 5 * s1 / 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var steps []step
			at, n := int64(0), 0
			for _, p := range tt.phases {
				for ; at < p.until; n++ {
					launches := p.launches[n%len(p.launches)]
					gpu := int64(launches) * p.gpu
					kind := uint32(3) // as many bits as a number of launches
					if launches > 7 {
						kind = 6
					}
					r := &record{from: start + at, length: gpu + ms/10, gpu: gpu, launches: launches, kind: kind}
					steps, at = append(steps, step{sample: sample{r, 1}}), at+r.length
				}
			}
			got, lost := shiftsOf(steps, 0), int64(0)
			for i := range got {
				lost += got[i].lost
			}
			if len(got) != tt.want || max(lost-tt.lost, tt.lost-lost) > tt.lost/20 {
				t.Errorf("%d shifts that lost %d ms, want %d that lost %d", len(got), lost/ms, tt.want, tt.lost/ms)
			}
		})
	}
}
