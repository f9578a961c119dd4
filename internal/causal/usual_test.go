package causal

import "testing"

// A wait for another thread is normal if it is as long as usual, or short.
func TestUsual(t *testing.T) {
	const ms = 1e6
	alike := []float64{0.8, 1, 1, 1, 1.2}
	varied := []float64{0.1, 0.5, 1, 2, 2.5}
	long := []float64{1, 5, 10, 20, 25}
	for _, tt := range []struct {
		name  string
		how   baseline
		waits []float64 // ms, over and over
		every int       // steps of 100 ms per wait
		known bool
		ns    int64
	}{
		{"a hand-over that takes as long as always", baselineHandOver, alike, 1, true, ms},
		{"one that varies and is little", baselineHandOver, varied, 1, true, ms},
		{"one that varies and is much", baselineHandOver, long, 1, false, 0},
		{"one that is in few steps", baselineHandOver, alike, 4, false, 0},
		{"ranks that wait little for each other, now and then", baselineMeeting, varied, 4, true, ms},
		{"ranks that wait for each other in each step", baselineMeeting, long, 1, true, 10 * ms},
		{"a rank that is late now and then", baselineMeeting, long, 3, false, 0},
		{"input that is handed on", baselineLittle, varied, 1, true, ms},
		{"input that is late", baselineLittle, long, 1, false, 0},
		{"waits for a disk", baselineLearned, alike, 1, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			var waits, steps []weighted
			for i := range 100 {
				x := weighted{0, 1}
				if i%tt.every == 0 {
					x.v = int64(tt.waits[i/tt.every%len(tt.waits)] * ms)
					waits = append(waits, x)
				}
				steps = append(steps, x)
			}
			e.scratch.span = 100 * 100 * ms
			if got := e.usual(tt.how, waits, steps); got.known != tt.known || got.ns != tt.ns {
				t.Errorf("%t, %d ns; want %t, %d", got.known, got.ns, tt.known, tt.ns)
			}
		})
	}
}

// The lower of two levels is usual only if all parts of the window have such waits.
func TestLevelOfFault(t *testing.T) {
	for _, tt := range []struct {
		name  string
		parts int // of the window with waits, of eight
		want  int64
	}{
		{"in half of the time", 4, 0},
		{"at all times", 8, 10 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps := make([]step, 800)
			for i := range steps {
				r := &record{from: start + int64(i)*100*ms, length: 90 * ms}
				if i%4 == 0 && i >= 100*(8-tt.parts) {
					r.parts[0] = part{ns: 10 * ms}
					if i >= 600 {
						r.parts[0].ns = 60 * ms
					}
					r.nparts = 1
				}
				steps[i] = step{sample: sample{r, 1}}
			}
			e := New(1)
			e.causes.list = []cause{{baseline: baselineLearned}}
			if got := e.baseline(steps, baselineKey{how: baselineLearned}); !got.known || got.ns != tt.want {
				t.Errorf("%+v, want %d ns", got, tt.want)
			}
		})
	}
}

// Waits for another thread that recur in fewer than half of the steps are normal, too.
func TestRecurringHandOver(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		name string
		wait func(n int) float64 // ms, of the n-th of 400 steps of 20 ms
		ns   int64
	}{
		{"in two of five steps, throughout", func(n int) float64 { return float64(n % 5 / 3) }, ms},
		{"for a while", func(n int) float64 { return float64(n / 240) }, 0},
		{"much of the time", func(n int) float64 { return 10 * float64(n%5/3) }, 0},
		{"most of a step, seldom", func(n int) float64 { return float64(n % 40 / 39 * 15) }, 0},
		{"of very different lengths", func(n int) float64 { return float64(n%5/3) * []float64{0.1, 1, 2}[n%3] }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			e.causes.list = []cause{{baseline: baselineHandOver}}
			e.scratch.span = 400 * 20 * ms
			steps := make([]step, 400)
			for n := range steps {
				r := &record{from: start + int64(n)*20*ms, length: 20 * ms, nparts: 1}
				r.parts[0].ns = int64(tt.wait(n) * ms)
				steps[n] = step{sample: sample{r, 1}}
			}
			if u := e.baseline(steps, baselineKey{how: baselineHandOver}); u.ns != tt.ns {
				t.Errorf("%d ns are usual, want %d", u.ns, tt.ns)
			}
		})
	}
}
