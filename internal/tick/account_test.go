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

// A window has the loop of its own time, also while another one has the longest total.
func TestLoopOfAPhase(t *testing.T) {
	loop := func(id, steps uint64, others ...*Loop) *Loop {
		l := &Loop{ID: id, TID: 7, Waits: 2, Steps: steps, Total: time.Duration(steps) * time.Second, Lengths: &stats.Sketch{}, Others: others}
		l.Lengths.Add(int64(time.Second), uint32(steps))
		return l
	}
	named := func(l *Loop) *Loop {
		l.Range = "step"
		return l
	}
	for name, tt := range map[string]struct {
		was, now *Loop
		id       uint64 // 0: none
		steps    uint64
	}{
		"the main loop":                     {loop(1, 1000, loop(2, 50)), loop(1, 1010, loop(2, 50)), 1, 10},
		"another, which is new":             {loop(1, 1000), loop(1, 1000, loop(2, 10)), 2, 10},
		"another, which goes on":            {loop(1, 1000, loop(2, 10)), loop(1, 1000, loop(2, 15)), 2, 5},
		"both":                              {loop(1, 1000, loop(2, 10)), loop(1, 1002, loop(2, 15)), 2, 5},
		"both, and ranges name the steps":   {named(loop(1, 1000, loop(2, 10))), named(loop(1, 1002, loop(2, 15))), 1, 2},
		"another, and ranges name the step": {named(loop(1, 1000, loop(2, 10))), named(loop(1, 1000, loop(2, 15))), 2, 5},
		"another has become the main one":   {loop(1, 1000, loop(2, 998)), loop(2, 1005, loop(1, 1000)), 2, 7},
		"its start is unknown":              {loop(1, 1000), loop(1, 1000, loop(2, 500)), 0, 0},
		"neither":                           {loop(1, 1000, loop(2, 10)), loop(1, 1000, loop(2, 10)), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			was, now := Breakdown{Loop: tt.was}, Breakdown{Elapsed: uint64(10 * time.Second), Loop: tt.now}
			l := now.Since(&was).Loop
			if l == nil {
				l = &Loop{Lengths: &stats.Sketch{}}
			}
			if l.ID != tt.id || l.Steps != tt.steps || l.Total != time.Duration(tt.steps)*time.Second || l.Lengths.Count() != tt.steps || len(l.Others) != 0 {
				t.Errorf("%d steps of loop %d, %v in all, want %d of %d", l.Steps, l.ID, l.Total, tt.steps, tt.id)
			}
		})
	}
}

// The sum of several times has the loop with the longest total, whichever came first.
func TestLoopsOfPhasesAddUp(t *testing.T) {
	of := func(id uint64, seconds int) *Loop {
		l := &Loop{TID: 7, Waits: int(id), Steps: uint64(seconds), Total: time.Duration(seconds) * time.Second, Lengths: &stats.Sketch{}}
		l.Lengths.Add(int64(time.Second), uint32(seconds))
		return l
	}
	var sum *Loop
	for _, x := range []*Loop{of(1, 10), of(1, 10), of(1, 10), of(2, 9), of(2, 9), nil, of(2, 9), of(2, 9)} {
		sum = sum.Plus(x)
	}
	if sum.Waits != 2 || sum.Total != 36*time.Second || sum.Steps != 36 || sum.Lengths.Count() != 36 {
		t.Errorf("%d steps of %d waits, %v, want 36 steps of 2 waits", sum.Steps, sum.Waits, sum.Total)
	}
	if len(sum.Others) != 1 || sum.Others[0].Total != 30*time.Second || sum.Others[0].Others != nil {
		t.Errorf("others %+v, want one of 30 s", sum.Others)
	}
}
