package causal

import (
	"testing"
	"time"

	"ingero/pkg/events"
)

// A culprit has its current name, not that of the shell before exec, and not that of another of its
// threads.
func TestLatestName(t *testing.T) {
	before, sibling := stress, stress
	before.Name = events.NameOf("sh")
	sibling.TID, sibling.Name = stress.TID+1, events.NameOf("io-worker")
	e := New(1)
	steps := made(1000, 3, 3*ms, stress)
	for i := range steps {
		for j := range steps[i].Waits {
			switch {
			case i < 500: // more than a slice or two
				steps[i].Waits[j].Who = before
			case i > 600:
				steps[i].Waits[j].Who = sibling
			}
		}
	}
	e.Add(steps[:500])
	if got := chainsOf(e, steps[499].To); len(got) != 1 || got[0].Culprits[0].Thread.Name != before.Name {
		show(t, got)
		t.Fatal("before it ran its program")
	}
	e.Add(steps[500:])
	got := chainsOf(e, steps[999].To)
	if len(got) != 1 || len(got[0].Culprits) != 1 || got[0].Culprits[0].Thread.Name != stress.Name || got[0].Lost < 990*time.Millisecond {
		show(t, got)
		t.Errorf("%d chains, want one that names stress-ng", len(got))
	}
}

// A program's first thread, such as a shell's before exec, may have done almost nothing before its
// other threads began.
func TestNameOfTheBusiestThread(t *testing.T) {
	first := stress
	first.Name, first.TID = events.NameOf("sh"), stress.PID
	busy := stress
	busy.TID = stress.PID + 5
	for _, turns := range []int{2, 7} { // the first thread's part: one step in that many
		e := New(1)
		steps := made(1000, 3, 3*ms, busy)
		for i := range steps {
			for j := range steps[i].Waits {
				if i < 20 || i%turns == 1 && i < 400 {
					steps[i].Waits[j].Who = first
				}
			}
		}
		e.Add(steps)
		got := chainsOf(e, steps[999].To)
		if len(got) != 1 || len(got[0].Culprits) != 1 || got[0].Culprits[0].Thread.Name != busy.Name {
			show(t, got)
			t.Errorf("one step in %d: want one chain that names stress-ng", turns)
		}
	}
}
