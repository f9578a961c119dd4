package causal

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
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
		for start := range l[c.ID] {
			if !c.Replaced.IsZero() && start >= c.Replaced.UnixNano() {
				delete(l[c.ID], start)
			}
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

// A cause that was a part of a sum, and is reported alone from now on, does not replace the sum: one of 21
// small programs takes five times as much as before.
func TestPartReplacesNoSum(t *testing.T) {
	steps := made(16000, 2, 4*ms, events.Thread{PID: 90, TID: 90, Parent: 1, Name: events.NameOf("hog")})
	for i := range steps {
		n := uint32(i / 2 % 41)
		if len(steps[i].Waits) == 0 || n < 20 {
			continue
		}
		if (steps[i].To-steps[0].From)/s1 >= 130 && n < 25 {
			n = 20
		}
		steps[i].Waits[0].Who = events.Thread{PID: 100 + n, TID: 100 + n, Parent: 200 + n, Name: events.NameOf("program" + string(rune('a'+n)))}
	}
	got, most := total{}, time.Duration(0)
	ticked(steps, func(_ *Engine, chains []tick.Chain) {
		got.add(chains)
		sum, _ := got.sum()
		if most = max(most, sum); sum < most-200*time.Millisecond && !t.Failed() {
			show(t, chains)
			t.Errorf("%v of %v are left", sum, most)
		}
	})
	if len(got) != 3 {
		t.Errorf("%d chains, want the hog, the sum and the program", len(got))
	}
}

// steady returns a finding of a loss of 100 ms a second. Times are in seconds.
func steady(r *Rule, took string, from, to, now int64) *Finding {
	x := &Finding{PID: 7, TID: 7, Group: "a", From: from * s1, To: to * s1, Lost: (to - from) * s1 / 10, took: took}
	if took != "" {
		x.Group, x.instead = took, []string{took}
	}
	x.assign(r)
	for at := from - from%10; at < to; at += 10 {
		if at >= from || at >= now-windowSeconds {
			x.spread = append(x.spread, tick.Loss{Start: at * s1, Lost: time.Duration(min(at+10, to)-max(at, from)) * time.Second / 10})
		}
	}
	return x
}

// A loss that another rule explains from now on is in one chain, and back in the first one if the other is revised
// away.
func TestRuleChanges(t *testing.T) {
	disk := chainID(7, diskWait.Name, "a")
	for name, tt := range map[string]struct {
		find func(now int64) *Finding // nil: nothing
		lost time.Duration
	}{
		"two rules take over the same": {func(now int64) *Finding {
			if now <= 1180 {
				return steady(&swapIn, disk, max(1000, now-windowSeconds), now, now)
			}
			return steady(&memoryLimit, disk, now-windowSeconds, now, now)
		}, 25 * time.Second},
		"the new one is revised away": {func(now int64) *Finding {
			switch {
			case now <= 1180:
				return steady(&diskWait, "", max(1000, now-windowSeconds), now, now)
			case now <= 1185:
				return steady(&swapIn, disk, 1145, now, now)
			}
			return nil
		}, 18 * time.Second},
		"the new one begins later": {func(now int64) *Finding {
			switch {
			case now <= 1095:
				return steady(&diskWait, "", max(1000, now-windowSeconds), min(now, 1060), now)
			case now >= 1185:
				return steady(&swapIn, disk, max(1125, now-windowSeconds), now, now)
			}
			return nil
		}, 18500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			e, got := New(1), total{}
			for now := int64(1010); now <= 1250; now++ {
				e.series[7] = &series{pid: 7, tid: 7, newest: now}
				var found []*Finding
				if x := tt.find(now); x != nil {
					found = append(found, x)
				}
				chains := e.reportChains(found, &tick.Tick{Time: wall(now * s1)})
				got.add(chains)
				maps.DeleteFunc(got, func(id string, _ map[int64]time.Duration) bool {
					return !slices.ContainsFunc(chains, func(c tick.Chain) bool { return c.ID == id })
				})
			}
			if sum, _ := got.sum(); sum != tt.lost {
				t.Errorf("%v in all, want %v: %v", sum, tt.lost, got)
			}
		})
	}
}

// A loss is in one chain at a time while the rule changes: a program takes the CPU, then many short
// ones of the same name do, then it alone does again.
func TestReplaced(t *testing.T) {
	steps := made(20000, 2, 4*ms, stress)
	for i := range steps {
		if len(steps[i].Waits) == 0 {
			continue
		}
		who := events.Thread{PID: 100, TID: 100, Parent: 60, Name: events.NameOf("gzip")}
		if second := (steps[i].To - steps[0].From) / s1; second >= 100 && second < 220 {
			who.PID = 1000 + uint32(steps[i].To/(300*ms))%100000
			who.TID = who.PID
		}
		steps[i].Waits[0].Who = who
	}
	got, rules := total{}, map[string]int{}
	lost := ticked(steps, func(_ *Engine, chains []tick.Chain) {
		got.add(chains)
		for _, c := range chains {
			rules[c.Rule]++
		}
	})
	sum, _ := got.sum()
	if len(got) != 2 || rules["burst-of-programs"] == 0 || sum < lost*99/100 || sum > lost*101/100 {
		t.Errorf("%d chains, by rule and tick %v: %v in all, want %v", len(got), rules, sum, lost)
	}
}

// Small causes that become a crowd are counted once.
func TestSeveralBecomeACrowd(t *testing.T) {
	steps := made(20000, 2, 4*ms, stress)
	for i := range steps {
		if len(steps[i].Waits) == 0 {
			continue
		}
		k := uint32(100 + i/2%3)
		if (steps[i].To-steps[0].From)/s1 < 100 {
			k = 1000 + uint32(i/2%200)
		}
		steps[i].Waits[0].Who = events.Thread{PID: k, TID: k, Parent: 1, Name: events.NameOf("job" + strconv.Itoa(int(k)))}
	}
	got := total{}
	lost := ticked(steps, func(_ *Engine, chains []tick.Chain) { got.add(chains) })
	few, many := chainID(7, cpuTaken.Name, crowdOf), chainID(7, cpuTaken.Name, several)
	sum, _ := got.sum()
	if len(got) != 2 || got[few] == nil || got[many] == nil || sum < lost*99/100 || sum > lost*101/100 {
		t.Errorf("%d chains: %v in all, want %v", len(got), sum, lost)
	}
}

// A chain is counted once if there are too many for it.
func TestLeftOut(t *testing.T) {
	e := New(1)
	const more = 20
	for pid := uint32(1); pid <= maxChains+more; pid++ {
		steps := made(500, 20, 4600*us, stress) // 1.5 %
		for i := range steps {
			steps[i].PID, steps[i].TID = pid, pid
		}
		e.Add(steps)
	}
	for range 3 {
		if chains := chainsOf(e, start+8*s1); len(chains) != maxChains || e.LeftOut() != more {
			t.Fatalf("%d chains, %d left out, want %d and %d", len(chains), e.LeftOut(), maxChains, more)
		}
	}
}
