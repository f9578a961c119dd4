//go:build measure

package incidents

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/test/tapes"
)

// A job launches little, then thirty thousand kernels a second for 10 s, then little again. The
// shed steps return, no chain is made, and each step is found with its length by the program's own
// clock.
func TestStorm(t *testing.T) {
	l := newLab(t, byDefault(t))
	db := filepath.Join(t.TempDir(), "x.db")
	p := plan{length: 40 * time.Second, victim: victim{env: blocks, main: "copy 65536; ~launch 8 500; !launch 150 27; sync; cpu 300"},
		faults: []fault{{from: 5 * time.Second, to: 15 * time.Second, begin: inside}}}
	l.expect(alone)
	r, _ := l.carryOut(t, p, db, l.take(t, alone))
	var took []time.Duration
	for _, s := range r.clock.steps() {
		if s.End <= r.until {
			took = append(took, time.Duration(s.End-s.Begin))
		}
	}
	slices.Sort(took)
	var most int
	for _, shed := range r.tape.Shed {
		most = max(most, len(shed))
	}
	left := r.tape.Shed[len(r.tape.Shed)-1]
	testkit.Measured(t, "steps-taken", float64(most), "steps", testkit.Lower)
	testkit.Measured(t, "steps-not-given-back", float64(len(left)), "steps", testkit.Lower)
	if len(left) > 0 {
		t.Errorf("25 s after the storm tracing still does without %v", left)
	}
	for _, h := range r.tape.Heard() {
		for i := range h.Chains {
			t.Errorf("%s: %s, lost %v", h.Time.Format("05.000"), h.Chains[i].Rule, h.Chains[i].Lost)
		}
	}
	x := tapes.Play(t, db, r.until).Loops[uint32(r.child.PID())]
	if x == nil {
		t.Fatal("no loop was found")
	}
	testkit.MeasuredShare(t, "steps-found", min(int(x.Steps), len(took)), len(took), testkit.Higher)
	if n := len(took); int(x.Steps) < n-n/100 || int(x.Steps) > n {
		t.Errorf("%d steps, want %d", x.Steps, n)
	}
	want := took[len(took)/2]
	testkit.Measured(t, "median-step-error", 100*max(float64(x.P50)/float64(want)-1, 1-float64(x.P50)/float64(want)), "%", testkit.Lower)
	if x.P50 < want-want/20 || x.P50 > want+want/20 {
		t.Errorf("the median is %v, want %v", x.P50, want)
	}
	t.Logf("at most %d steps were taken; %v", most, r.tape.Shed)
}
