package causal

import (
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

// total has the last report of each bin, by chain, as a recording keeps it.
type total map[string]map[int64]time.Duration

func (l total) add(chains []tick.Chain) {
	for i := range chains {
		c := &chains[i]
		if l[c.ID] == nil {
			l[c.ID] = map[int64]time.Duration{}
		}
		for _, x := range c.Spread {
			l[c.ID][x.Start] = x.Lost
		}
	}
}

func (l total) sum() (ns, most time.Duration) {
	for _, bins := range l {
		for _, x := range bins {
			ns, most = ns+x, max(most, x)
		}
	}
	return ns, most
}

// ticked adds steps to an engine, with a tick after each second in which one ended.
func ticked(steps []ledger.Step, tick func(*Engine, []tick.Chain)) (lost time.Duration) {
	e, from := New(1), 0
	for i := range steps {
		lost += time.Duration(steps[i].Loss.Est)
		if i+1 < len(steps) && steps[i+1].To/s1 == steps[i].To/s1 {
			continue
		}
		e.Add(steps[from : i+1])
		from = i + 1
		tick(e, chainsOf(e, steps[i].To))
	}
	return lost
}

// lengthen makes a step longer that has a wait.
func lengthen(steps []ledger.Step, at int, by int64) {
	s := &steps[at]
	s.To += by
	s.Parts.SyncRunnable += by
	w := &s.Waits[0]
	w.NS, w.Last = w.NS+by, w.Last+by
	s.Loss.Est, s.Loss.Min, s.Loss.Max = s.Loss.Est+by, s.Loss.Min+by, s.Loss.Max+by
	moved(steps[at+1:], by)
}

// The last reports of all time bins add up to the total loss, over many windows: for a continuous
// hog, for one that comes for some seconds now and then, and beside a step that lost more than all others.
func TestSpread(t *testing.T) {
	always := func(int64) bool { return true }
	for name, tt := range map[string]struct {
		on   func(second int64) bool
		long int64 // of one step
	}{
		"all the time":               {always, 0},
		"now and then":               {func(s int64) bool { return s%23 < 7 }, 0},
		"with a long step":           {always, 30 * s1},
		"with one beyond the window": {always, 200 * s1},
	} {
		t.Run(name, func(t *testing.T) {
			steps := made(15000, 3, 3*ms, stress)
			first := steps[0].From
			for i := range steps {
				if s := &steps[i]; len(s.Waits) > 0 && !tt.on((s.To-first)/s1) {
					s.Parts.SyncRunnable, s.Waits, s.Loss = 0, nil, ledger.Loss{}
				}
			}
			if tt.long > 0 {
				lengthen(steps, 3000, tt.long)
			}
			got := total{}
			lost := ticked(steps, func(_ *Engine, chains []tick.Chain) { got.add(chains) })
			sum, most := got.sum()
			if off := float64(sum)/float64(lost) - 1; off < -0.05 || off > 0.05 {
				t.Errorf("%v in all, want %v", sum, lost)
			}
			if most > tick.SpreadStep*11/10 {
				t.Errorf("%v in a bin of %v", most, tick.SpreadStep)
			}
		})
	}
}

// The first report of a chain has all of its loss by time, also of the bin in which the window begins.
func TestFirstReport(t *testing.T) {
	e := New(1)
	steps := made(6000, 3, 3*ms, stress)
	e.Add(steps)
	got := chainsOf(e, steps[5999].To)
	if len(got) != 1 {
		t.Fatalf("%d chains", len(got))
	}
	if off := got[0].Lost - time.Duration(bins(got[0].Spread).sum()); off.Abs() > time.Millisecond {
		t.Errorf("lost %v, %v of it not by time", got[0].Lost, off)
	}
}
