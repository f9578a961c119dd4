package causal

import (
	"testing"
	"time"
)

// The last reports of all time bins add up to the total loss, over many windows: for a continuous
// hog, and for one that comes for some seconds now and then.
func TestSpread(t *testing.T) {
	for name, on := range map[string]func(second int64) bool{
		"all the time": func(int64) bool { return true },
		"now and then": func(s int64) bool { return s%23 < 7 },
	} {
		t.Run(name, func(t *testing.T) {
			e := New(1)
			steps := made(15000, 3, 3*ms, stress)
			spread := map[int64]time.Duration{}
			lost, first, from := int64(0), steps[0].From, 0
			for i := range steps {
				s := &steps[i]
				if len(s.Waits) > 0 && !on((s.To-first)/s1) {
					s.Parts.SyncRunnable, s.Waits = 0, nil
					s.Loss.Est, s.Loss.Min, s.Loss.Max = 0, 0, 0
				}
				lost += s.Loss.Est
				if i+1 < len(steps) && steps[i+1].To/s1 == s.To/s1 {
					continue
				}
				e.Add(steps[from : i+1])
				from = i + 1
				for _, c := range chainsOf(e, s.To) {
					for _, x := range c.Spread {
						spread[x.Start] = x.Lost
					}
				}
			}
			sum := time.Duration(0)
			for _, ns := range spread {
				sum += ns
			}
			if off := float64(sum)/float64(lost) - 1; off < -0.05 || off > 0.05 {
				t.Errorf("%v in all, want %v", sum, time.Duration(lost))
			}
		})
	}
}
