package tick

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/stats"
)

// A window's code has the growth of each place, at most the window's time between calls: the earlier
// time of a place that was not listed is unknown.
func TestCodeOfAWindow(t *testing.T) {
	was := Breakdown{GapCPU: 100, Code: []CodeTime{{"a", 60}, {"b", 30}}}
	now := Breakdown{GapCPU: 150, Code: []CodeTime{{"c", 90}, {"a", 70}, {"b", 30}}}
	got := now.Since(&was)
	if want := []CodeTime{{"c", 50}, {"a", 10}}; !slices.Equal(got.Code, want) || got.CodeAt() != "c" {
		t.Errorf("%v, mostly at %q, want %v", got.Code, got.CodeAt(), want)
	}
	if sum := got.Plus(&was); !slices.Equal(sum.Code, []CodeTime{{"a", 70}, {"c", 50}, {"b", 30}}) || sum.CodeAt() != "" {
		t.Errorf("with the time before: %v, mostly at %q", sum.Code, sum.CodeAt())
	}
}

// Another main loop has steps from before the window, which its growth must not have.
func TestLoopOfAWindow(t *testing.T) {
	loop := func(waits int, steps uint64, total time.Duration) *Loop {
		return &Loop{TID: 7, Op: 0x0101, Waits: waits, Steps: steps, Total: total, Lengths: &stats.Sketch{}}
	}
	const hour, window = uint64(time.Hour), uint64(10 * time.Second)
	for name, tt := range map[string]struct {
		was, now *Loop
		want     uint64 // steps
	}{
		"the same loop":             {loop(2, 100, time.Hour), loop(2, 110, time.Hour+9*time.Second), 10},
		"the same, with long steps": {loop(2, 100, time.Hour), loop(2, 101, time.Hour+time.Minute), 1},
		"the first":                 {nil, loop(2, 4, 2*time.Minute), 4},
		"another":                   {loop(2, 100, time.Hour), loop(3, 7000, time.Hour+time.Second), 0},
		"another that is new":       {loop(2, 4, time.Second), loop(3, 8, 9*time.Second), 8},
		"none":                      {loop(2, 4, time.Second), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			was, now := Breakdown{Elapsed: hour, Loop: tt.was}, Breakdown{Elapsed: hour + window, Loop: tt.now}
			got := uint64(0)
			if l := now.Since(&was).Loop; l != nil {
				got = l.Steps
			}
			if got != tt.want {
				t.Errorf("%d steps, want %d", got, tt.want)
			}
		})
	}
}
