package sim

import (
	"path/filepath"
	"slices"
	"testing"
)

// Each step is recorded: sequential steps do not overlap, and none is missing.
func TestSteps(t *testing.T) {
	s := extract(t)
	steps, err := NewSteps(filepath.Join(t.TempDir(), "steps"))
	if err != nil {
		t.Fatal(err)
	}
	from := Now()
	s.result(t, "train", steps.Env(), "--steps", "50", "--kernel-us", "10")
	s.result(t, "infer", steps.Env(), "--requests", "7", "--rate", "0", "--threads", "2")
	to := Now()
	const want = 50 + 2*7
	got := steps.Between(nil, from, to)
	if steps.Count() != want || len(got) != want {
		t.Errorf("%d counted, %d kept, want %d", steps.Count(), len(got), want)
	}
	slices.SortFunc(got, func(a, b Step) int { return int(a.Begin - b.Begin) })
	for i := 1; i < 50; i++ { // steps of train, which ran first
		if got[i].Begin < got[i-1].End {
			t.Errorf("step %d began at %v, the one before ended at %v", i, got[i].Begin, got[i-1].End)
		}
	}
	if n := len(steps.Between(nil, to, to)); n != 0 {
		t.Errorf("%d steps of no time", n)
	}
	if err := steps.Close(); err != nil {
		t.Error(err)
	}
}
