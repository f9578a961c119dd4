package causal

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/tick"
)

// The first rule that takes over a finding gets it, under its own name; no other rule has it.
func TestTakesOver(t *testing.T) {
	w := New(1).window(&tick.Tick{Time: time.Unix(0, start)})
	taken := ruleNamed(cpuTaken.Name)
	for _, pid := range []uint32{7, 9} {
		x := Finding{PID: pid, From: start - s1, To: start, Lost: s1, judged: true}
		x.assign(&Rules[taken])
		w.claimed[taken] = append(w.claimed[taken], x)
	}
	before := w.claimed[taken][0].id
	take := func(rule string, pid uint32) []Finding {
		w.running = ruleNamed(rule)
		return takeOver([]string{cpuTaken.Name}, func(_ *Window, x *Finding) bool { return x.PID == pid })(w)
	}
	got := take(burstOfPrograms.Name, 7)
	if len(got) != 1 || got[0].Group != before {
		t.Fatalf("took over %+v", got)
	}
	if again := take(cpusetShrunk.Name, 7); len(again) != 0 {
		t.Errorf("a second rule took over %+v", again)
	}
	if left := w.foundBy(cpuTaken.Name); len(left) != 1 || left[0].PID != 9 {
		t.Errorf("left are %+v", left)
	}
}

// The steps of several processes are valid at once, whatever is queried in between.
func TestStepsStayValid(t *testing.T) {
	e := New(1)
	for i, x := range []struct{ pid, tid uint32 }{{7, 7}, {7, 8}, {9, 9}} {
		steps := made(100*(3-i), 3, 3*ms, stress)
		for j := range steps {
			steps[j].PID, steps[j].TID = x.pid, x.tid
		}
		e.Add(steps)
	}
	w := e.window(&tick.Tick{Time: time.Unix(0, start+20*s1)})
	tid, a := w.steps(7)
	first := slices.Clone(a)
	_, b := w.steps(9)
	if other := w.stepsOf(8); tid != 7 || len(a) == 0 || len(b) == 0 || len(other) == 0 || &a[0] == &b[0] {
		t.Fatalf("thread %d, %d, %d and %d steps", tid, len(a), len(b), len(other))
	}
	if !slices.Equal(a, first) {
		t.Error("the steps of a process changed while others were asked for")
	}
}
