//go:build measure

package incidents

import (
	"ingero/test/tapes"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The steps found equal those that the program counts by its own clock, though each waits for the
// GPU three times and some do other work.
func TestStepsAreTheProgramsOwn(t *testing.T) {
	l := newLab(t, 0)
	db := filepath.Join(t.TempDir(), "x.db")
	p := plan{length: 3 * time.Second, victim: victim{env: spins,
		main: "copy 65536; launch 4 300; sync; cpu 200; launch 8 300; sync; launch 2 500; sync; @50 launch 3 1000"}}
	l.expect(full)
	r, _ := l.carryOut(t, p, db, l.take(t, full))
	var took []time.Duration
	for _, s := range r.clock.steps() {
		if s.End <= r.until {
			took = append(took, time.Duration(s.End-s.Begin))
		}
	}
	x := tapes.Play(t, db, r.until).Loops[uint32(r.child.PID())]
	if x == nil {
		t.Fatal("no loop was found")
	}
	if n := len(took); x.Waits != 3 || int(x.Steps) < n-4 || int(x.Steps) > n {
		t.Errorf("%d steps of %d waits each, want %d of 3", x.Steps, x.Waits, n)
	}
	slices.Sort(took)
	if want := took[len(took)/2]; x.P50 < want-want/20 || x.P50 > want+want/20 {
		t.Errorf("the median is %v, want %v", x.P50, want)
	}
	if want := took[len(took)-1]; len(x.Slowest) == 0 || x.Slowest[0].Length() < want-want/5 {
		t.Errorf("slowest: %+v, want %v", x.Slowest, want)
	}
}
