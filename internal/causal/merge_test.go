package causal

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A step that two merged causes slowed is one slow step.
func TestMergeInOneStep(t *testing.T) {
	gzip, rotate := events.Thread{PID: 100, TID: 100, Parent: 60}, events.Thread{PID: 101, TID: 101, Parent: 60}
	gzip.Name, rotate.Name = events.NameOf("gzip"), events.NameOf("rotate")
	steps := with(1000, 5, 2*ms, ledger.Wait{NS: 2 * ms, State: events.WaitRunnable, Who: gzip, Critical: true})
	for i := range steps {
		if s := &steps[i]; len(s.Waits) > 0 {
			w := s.Waits[0]
			s.Waits[0].NS -= ms / 10
			w.NS, w.Who = ms/10, rotate
			s.Waits = append(s.Waits, w)
		}
	}
	e := New(1)
	e.Add(steps)
	got := chainsOf(e, steps[999].To)
	if len(got) != 1 || len(got[0].Culprits) != 2 || got[0].Slow != 200 || got[0].Confidence < 0.95 {
		show(t, got)
		t.Error("want one chain with 200 slow steps")
	}
}

// Newly seen programs of one process that go on are no burst.
func TestHogsAreNoBurst(t *testing.T) {
	steps := with(60, 1, 2*ms, ledger.Wait{NS: 2 * ms, State: events.WaitRunnable})
	for i := range steps {
		for j := range steps[i].Waits {
			k := uint32(100 + i%5)
			steps[i].Waits[j].Who = events.Thread{PID: k, TID: k, Parent: 60, Name: events.NameOf("hog")}
		}
	}
	e := New(1)
	e.Add(steps)
	tk := tick.Tick{Time: time.Unix(0, steps[59].To), Others: []tick.Process{{PID: 60, Comm: "shell"}}}
	tk.Chains, _ = e.Tick(&tk)
	if len(tk.Chains) != 1 || tk.Chains[0].Rule != "cpu-taken" {
		show(t, tk.Chains)
		t.Errorf("want that the CPU was taken")
	}
}

// Many short programs of one process are one burst, whatever their names.
func TestBurstOfPrograms(t *testing.T) {
	steps := with(1000, 2, 2*ms, ledger.Wait{NS: 2 * ms, State: events.WaitRunnable})
	names := []string{"gzip", "rotate"}
	for i := range steps {
		for j := range steps[i].Waits {
			k := uint32(100 + i/20) // a program lasts for 300 ms
			steps[i].Waits[j].Who = events.Thread{PID: k, TID: k, Parent: 60, Name: events.NameOf(names[i/20%2])}
		}
	}
	e := New(1)
	e.Add(steps)
	tk := tick.Tick{Time: time.Unix(0, steps[999].To), Others: []tick.Process{{PID: 60, Comm: "logrotate"}}}
	tk.Chains, _ = e.Tick(&tk)
	if len(tk.Chains) != 1 {
		show(t, tk.Chains)
		t.Fatalf("%d chains, want one", len(tk.Chains))
	}
	c := &tk.Chains[0]
	if who := &c.Culprits[0].Thread; c.Rule != "burst-of-programs" || who.PID != 60 || who.Name.String() != "logrotate" {
		t.Errorf("%s by %s (%d)", c.Rule, who.Name, who.PID)
	}
	if c.Lost < 900*time.Millisecond || c.Lost > 1100*time.Millisecond {
		t.Errorf("lost %v of a second", c.Lost)
	}
	var spread time.Duration
	for _, x := range c.Spread {
		spread += x.Lost
	}
	if off := spread - c.Lost; off > time.Millisecond || off < -time.Millisecond {
		t.Errorf("%v over time, %v in all", spread, c.Lost)
	}
}

// Findings that are merged are as severe as what is certain of them, and as each of them.
func TestMergeUncertain(t *testing.T) {
	part := func(least int64) *Finding {
		return &Finding{PID: 7, rule: &memoryLimit, taken: true, Severity: tick.Low, Lost: 600 * ms, Min: least, Max: s1, Window: 60 * s1,
			Culprits: []tick.Culprit{{What: "memory limit"}}}
	}
	sum := func(lost, least int64, severity tick.Severity) *Finding {
		x := part(least)
		x.Lost, x.Severity = lost, severity
		return x
	}
	for _, tt := range []struct {
		a, b *Finding
		want tick.Severity
	}{
		{part(500 * ms), part(500 * ms), tick.High},
		{part(100 * ms), part(100 * ms), tick.Low},
		{sum(25*s1, 0, tick.Low), part(100 * ms), tick.Low},
		{sum(2*s1, 0, tick.Low), sum(s1, 0, tick.High), tick.High},
	} {
		lost, least := time.Duration(tt.a.Lost+tt.b.Lost), time.Duration(tt.a.Min+tt.b.Min)
		if got := merge([]*Finding{tt.a, tt.b}); len(got) != 1 || got[0].Severity != tt.want {
			t.Errorf("%v of 60 s, %v of it certain: %+v; want %s", lost, least, got, tt.want)
		}
	}
}

// Programs with small losses are reported together with a larger one of the same parent.
func TestSiblings(t *testing.T) {
	steps := with(1000, 2, 2*ms, ledger.Wait{NS: 2 * ms, State: events.WaitRunnable})
	names := []string{"gzip", "rotate", "chmod", "chown", "touch", "find"}
	for i := range steps {
		for j := range steps[i].Waits {
			k := uint32(100 + i/20)
			name := names[0]
			if i%3 == 0 { // many small programs have a third of the time
				name = names[1+i/20%5]
			}
			steps[i].Waits[j].Who = events.Thread{PID: k, TID: k, Parent: 60, Name: events.NameOf(name)}
			if i%3 == 0 {
				steps[i].Waits[j].Who.PID, steps[i].Waits[j].Who.TID = k+1000, k+1000
			}
		}
	}
	e := New(1)
	e.Add(steps)
	got := chainsOf(e, steps[999].To)
	if len(got) != 1 || got[0].Lost < 900*time.Millisecond || got[0].Lost > 1100*time.Millisecond {
		show(t, got)
		t.Fatal("want one chain of a second")
	}
}

// A finding replaces those that describe its loss less exactly, but none that it cannot be.
func TestLeaveOut(t *testing.T) {
	op := testkit.Op
	at := func(r *Rule, op events.Op, lost, from, to int64) *Finding {
		x := &Finding{PID: 1, Op: op, Lost: lost, From: from, To: to}
		x.assign(r)
		return x
	}
	polls := at(&lockWait, op("cudaLaunchKernel"), 6, 0, 60)
	polls.Group = fileLock
	copied, malloc, sum := op("cudaMemcpy"), op("cudaMalloc"), op("ncclAllReduce")
	for name, tt := range map[string]struct {
		exact, other *Finding
		left         int
	}{
		"the same copies":         {at(&copyPageable, copied, 3, 0, 60), at(&callSlow, copied, 20, 0, 60), 1},
		"about as much":           {at(&copyPageable, copied, 3, 0, 60), at(&callSlow, sum, 6, 0, 60), 1},
		"slow calls of others":    {at(&copyPageable, copied, 3, 0, 60), at(&callSlow, sum, 20, 0, 60), 2},
		"at another time":         {at(&copyPageable, copied, 3, 0, 10), at(&callSlow, copied, 3, 20, 60), 2},
		"memory":                  {at(&allocStorm, malloc, 3, 0, 60), at(&callSlow, op("cudaFree"), 20, 0, 60), 1},
		"what ends the job":       {at(&xidFault, 0, 0, 0, 60), at(&lockWait, op("cudaStreamSynchronize"), 20, 0, 60), 1},
		"a late rank, and a lock": {at(&ncclStraggler, sum, 1, 0, 60), at(&lockWait, op("cudaStreamSynchronize"), 20, 0, 60), 2},
		"a late rank, and polls":  {at(&ncclStraggler, sum, 3, 0, 60), polls, 2},
	} {
		if got := leaveOut([]*Finding{tt.exact, tt.other}); len(got) != tt.left {
			t.Errorf("%s: %d findings are left, want %d", name, len(got), tt.left)
		}
	}
	pressure, leak, lock := at(&kvCachePressure, malloc, 3, 0, 60), at(&memoryLeak, 0, 0, 0, 60), at(&lockWait, sum, 3, 0, 60)
	late, fault, oom := at(&ncclStraggler, sum, 3, 0, 60), at(&xidFault, 0, 0, 0, 60), at(&graphOOM, malloc, 3, 0, 60)
	leaveOut([]*Finding{pressure, leak, lock, late, fault, oom})
	for x, want := range map[*Finding][]string{late: {lock.id}, fault: {lock.id}, oom: {pressure.id, leak.id}} {
		if !slices.Equal(x.instead, want) {
			t.Errorf("%s replaces %v, want %v", x.rule.Name, x.instead, want)
		}
	}
}

// The loss by time changes with the loss, or is not known.
func TestSpreadAddsUp(t *testing.T) {
	spread := []tick.Loss{{Start: 0, Lost: time.Second}, {Start: 10e9, Lost: 3 * time.Second}}
	sum := func(list []tick.Loss) (ns int64) {
		for _, l := range list {
			ns += int64(l.Lost)
		}
		return ns
	}
	limit := []tick.Culprit{{What: "memory limit of /a"}}
	reclaim := &Finding{PID: 7, Lost: 6e9, Window: 60e9, Culprits: limit}
	reads := &Finding{PID: 7, Lost: 4e9, Window: 60e9, Culprits: slices.Clone(limit), taken: true, spread: spread}
	reclaim.assign(&memoryLimit)
	reads.assign(&memoryLimit)
	if got := merge([]*Finding{reclaim, reads}); len(got) != 1 || got[0].Lost != 10e9 || len(got[0].spread) != 0 {
		t.Errorf("%d findings; the first lost %d ns: %v", len(got), got[0].Lost, got[0].spread)
	}
	longer := Finding{Lost: 6e9, spread: spread} // 2 s of it in a part of an interval
	if longer.scaleSpread(1.5); sum(longer.spread) != 6e9 || sum(spread) != 4e9 {
		t.Errorf("of 9 s, %v", longer.spread)
	}
	shrunk := Finding{Lost: 4e9, spread: spread}
	if shrunk.keepAfter(10e9, 0.75); shrunk.Lost != 3e9 || len(shrunk.spread) != 1 || sum(shrunk.spread) != 3e9 {
		t.Errorf("lost %d ns since 10 s: %v", shrunk.Lost, shrunk.spread)
	}
}
