package causal

import (
	"fmt"
	"testing"
	"time"

	"ingero/internal/tick"
)

const (
	itemStack = 78 // of waits after few launches
	lossStack = 79 // of the wait at the end of a step
)

// syncsOf runs steps of 2.4 ms, each with items(n) waits after two launches that take host and kernel, and returns the
// chains of sync-heavy and the time of these waits.
func syncsOf(steps int, host, kernel int64, items func(n int) int) (out []tick.Chain, took time.Duration) {
	x := newSimThread(7, 7, 42)
	launch := func(count int, host, kernel int64) {
		for range count {
			x.use(x.vary(host, 0.1))
			x.launch(6*us, x.vary(kernel, 0.02))
		}
	}
	for n := range steps {
		launch(60, 20*us, 40*us)
		x.sync(false)
		x.calls[len(x.calls)-1].Stack = lossStack
		from := x.now
		for range items(n) {
			launch(2, host, kernel)
			x.sync(false)
			if len(x.calls)%100 == 0 { // few calls have one
				x.calls[len(x.calls)-1].Stack = itemStack
			}
		}
		took += time.Duration(x.now - from)
	}
	for _, c := range feed(&tick.Batch{Calls: x.calls, Waits: x.waits}, start, 10*ms) {
		if c.Rule == syncHeavy.Name {
			out = append(out, c)
		}
	}
	return out, took
}

// Waits after every few launches are a cause where nearly all waits are such ones. They may all be unnecessary if the
// program waits so for a while only.
func TestSyncHeavyForAWhile(t *testing.T) {
	in := func(from, to int) func(n int) int {
		return func(n int) int {
			if n >= from && n < to {
				return 60
			}
			return 0
		}
	}
	for _, tt := range []struct {
		name         string
		steps        int
		host, kernel int64 // of a launch before a wait
		items        func(n int) int
		most         float64 // share of the time of the waits that is lost: all of it, or less; 0: no chain
	}{
		{"for a while", 3000, 20 * us, 40 * us, in(1000, 1600), 1},
		{"at the end", 3000, 20 * us, 40 * us, in(2400, 3000), 1},
		{"at all times", 1000, 20 * us, 40 * us, in(0, 1000), 0.9},
		{"twice", 3000, 20 * us, 40 * us, func(n int) int { return in(300, 700)(n) + in(2500, 2900)(n) }, 0.9},
		{"two a step", 1000, 20 * us, 40 * us, func(int) int { return 2 }, 0},
		{"in few steps", 1000, 20 * us, 40 * us, in(600, 610), 0},
		{"a solver for a while", 3000, 2 * us, 210 * us, in(1000, 1100), 0},
		{"a simulation on the CPU for a while", 3000, 170 * us, 60 * us, in(1000, 1100), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, took := syncsOf(tt.steps, tt.host, tt.kernel, tt.items)
			if tt.most == 0 {
				if len(got) != 0 {
					t.Errorf("a chain: %v lost, %q", got[0].Lost, got[0].Culprits[0].What)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("%d chains", len(got))
			}
			c := &got[0]
			if off := (c.Lost - took).Abs(); tt.most == 1 && off > took/10 || tt.most < 1 && float64(c.Lost) > tt.most*float64(took) {
				t.Errorf("lost %v, %v to %v; the waits took %v", c.Lost, c.LostMin, c.LostMax, took)
			}
			var rate int
			if fmt.Sscan(c.Culprits[0].What, &rate); rate < 5000 {
				t.Errorf("%q, want the rate while it waits so", c.Culprits[0].What)
			}
			if c.Stack != itemStack {
				t.Errorf("at stack %d, want %d", c.Stack, itemStack)
			}
		})
	}
}
