package incidents

import (
	"math"
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
)

// Of a healthy workload nothing is said, whatever goes on elsewhere.
func TestSilence(t *testing.T) {
	l := newLab(t)
	for _, w := range healthy {
		for _, neighbour := range []bool{false, true} {
			name := w.name
			if neighbour {
				name += ", a neighbour on another core"
			}
			t.Run(name, func(t *testing.T) {
				l := &lab{t, l.stack, l.faults}
				hog := 0
				if neighbour {
					hog = l.hog(otherCPU).PID()
				}
				victim, begin := l.start(w)
				last := l.observe(victim, begin, nil)
				l.report(&last)
				for i := range last.Chains {
					if c := &last.Chains[i]; !disturbed(c, hog) {
						t.Errorf("a chain: %s", c.Rule)
					}
				}
				if steps(&last, victim.PID()) < 10 {
					t.Error("there were no steps to judge")
				}
			})
		}
	}
}

// disturbed tells whether a chain says that mainly processes which this test
// knows nothing of took the CPU. Where a machine has others' work on it, they do.
func disturbed(c *tick.Chain, own ...int) bool {
	var ours time.Duration
	for _, x := range c.Culprits {
		if x.Own || x.Agent || slices.Contains(own, int(x.Thread.PID)) || x.Thread.Parent == c.PID {
			ours += x.Lost
		}
	}
	return c.Rule == "cpu-taken" && ours < c.Lost/2
}

// steps is how many steps the process has made.
func steps(t *tick.Tick, pid int) int {
	for i := range t.Breakdowns {
		if t.Breakdowns[i].PID == uint32(pid) {
			return t.Breakdowns[i].Steps
		}
	}
	return 0
}

// A neighbour on the same core is named, it alone, with the time that it took;
// and that is the same whether it came while ingero looked or was there before.
func TestNeighbourOnTheSameCore(t *testing.T) {
	l := newLab(t)
	share := map[string]float64{} // of the time that the hog was there: lost
	for _, when := range []string{"arrives", "was there"} {
		t.Run(when, func(t *testing.T) {
			l := &lab{t, l.stack, l.faults}
			victim, begin := l.start(healthy[0])
			hog := 0
			var arrived time.Time
			arrive := func() { hog, arrived = l.hog(victimCPU).PID(), time.Now() }
			then := arrive
			if when == "was there" {
				arrive()
				then = nil
			}
			last := l.observe(victim, begin, then)
			l.report(&last)
			if arrived.Before(last.Started) {
				arrived = last.Started
			}
			chains := slices.DeleteFunc(slices.Clone(last.Chains), func(c tick.Chain) bool { return disturbed(&c, hog) })
			if len(chains) != 1 {
				t.Fatalf("%d chains, want 1", len(chains))
			}
			c := &chains[0]
			if c.Rule != "cpu-taken" || c.PID != uint32(victim.PID()) {
				t.Errorf("%s of %d, want cpu-taken of %d", c.Rule, c.PID, victim.PID())
			}
			// It takes its name on the CPU: where that is busy, what it took first was as "faults".
			if len(c.Culprits) == 0 || c.Culprits[0].Thread.PID != uint32(hog) || !slices.Contains([]string{"hog", "faults"}, c.Culprits[0].Thread.Name.String()) {
				t.Errorf("culprits %+v, want hog (%d)", c.Culprits, hog)
			}
			share[when] = c.Lost.Seconds() / last.Time.Sub(arrived).Seconds()
		})
	}
	a, b := share["arrives"], share["was there"]
	if t.Failed() || math.Abs(a-b) > 0.15*max(a, b) {
		t.Errorf("lost %.3f s a second when the hog arrives, %.3f when it was there: not within 15 %%", a, b)
	}
}
