package incidents

import (
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// tries is how often a workload is run until no stranger takes its CPU: what else is
// said of a run that others disturb may be true.
const tries = 4

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
				var victim *testkit.Child
				var last tick.Tick
				for range tries {
					var begin func()
					victim, begin = l.start(w)
					last = l.observe(victim, begin, nil)
					l.report(&last)
					if !slices.ContainsFunc(last.Chains, func(c tick.Chain) bool { return disturbed(&c, hog) }) {
						break
					}
					victim.Signal(syscall.SIGKILL)
					_ = victim.Wait()
				}
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
	var arrives, there float64 // lost in each second that the hog was there
	for range tries {
		for when, share := range map[string]*float64{"arrives": &arrives, "was there": &there} {
			t.Run(when, func(t *testing.T) { *share = besideHog(t, l, when == "arrives") })
		}
		if math.Abs(arrives-there) <= 0.15*max(arrives, there) || t.Failed() {
			return
		}
		t.Logf("lost %.3f s a second when the hog arrives, %.3f when it was there", arrives, there)
	}
	t.Error("the two are never within 15 %")
}

// besideHog runs a victim and a hog on one CPU and returns what that cost in each second.
func besideHog(t *testing.T, in *lab, arrives bool) float64 {
	l := &lab{t, in.stack, in.faults}
	victim, begin := l.start(healthy[0])
	hog := 0
	var arrived time.Time
	then := func() { hog, arrived = l.hog(victimCPU).PID(), time.Now() }
	if !arrives {
		then()
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
	return c.Lost.Seconds() / last.Time.Sub(arrived).Seconds()
}
