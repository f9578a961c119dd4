package tick

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Wall shifts the times that leave the machine by the distance of the wall clock, and keeps the tick.
func TestWall(t *testing.T) {
	made := func(at time.Time) *Tick {
		return &Tick{Time: at, Xids: []Xid{{Time: at.UnixNano()}},
			Episodes: []Episode{{From: at, To: at, Chain: Chain{From: at, To: at,
				Timeline: []Moment{{Time: at}}, Spread: []Loss{{Start: at.UnixNano()}},
				Culprits: []Culprit{{Sharers: []Sharer{{Started: at}, {}}}}}}}}
	}
	at := time.Unix(1_700_000_000, 0).UTC()
	x := made(at)
	if x.Wall() != x {
		t.Error("a tick of a clock without steps is copied")
	}
	x.Ahead = -time.Hour
	if d := cmp.Diff(made(at.Add(-time.Hour)), x.Wall()); d != "" {
		t.Error(d)
	}
	want := made(at)
	want.Ahead = -time.Hour
	if d := cmp.Diff(want, x); d != "" {
		t.Error("the tick changed: ", d)
	}
}
