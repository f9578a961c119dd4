package causal

import (
	"testing"
	"time"

	"ingero/pkg/events"
)

// A culprit goes by the name that it has now, not by that of the shell that it was
// before it ran its program, and not by that of another of its threads.
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
