package govern

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// run feeds one process's launches a second, each of which costs 2 us while it is
// timed, and returns the seconds at which it was switched: "+3" counted, "-20"
// timed again.
func run(budget float64, seconds int, launches func(second int) int) string {
	g := Governor{Budget: budget}
	start := time.Unix(1000, 0)
	var out []string
	cost := 2000
	for s := 1; s <= seconds; s++ {
		n := launches(s)
		for _, x := range g.Tick(start.Add(time.Duration(s)*time.Second), time.Second,
			[]Use{{PID: 7, Launches: uint64(n), Cost: time.Duration(n * cost)}}) {
			sign := "-"
			if cost = 2000; x.Counted {
				sign, cost = "+", 800
			}
			out = append(out, fmt.Sprintf("%s%d", sign, s))
		}
	}
	return strings.Join(out, " ")
}

func TestTick(t *testing.T) {
	always := func(n int) func(int) int { return func(int) int { return n } }
	for _, tt := range []struct {
		name     string
		budget   float64
		seconds  int
		launches func(int) int
		want     string
	}{
		{"cold", 0.03, 100, always(10_000), ""},
		{"at the budget", 0.03, 100, always(15_000), ""},
		{"hot", 0.03, 100, always(20_000), "+2"},
		{"no budget", 0, 100, always(1_000_000), ""},
		{"hot for one tick", 0.03, 100, func(s int) int {
			if s == 5 {
				return 100_000
			}
			return 1000
		}, ""},
		{"hot, then a little under the budget", 0.03, 200, func(s int) int {
			if s < 20 {
				return 20_000
			}
			return 10_000 // 2 %: over half of it
		}, "+2"},
		{"hot, then cool", 0.03, 200, func(s int) int {
			if s < 20 {
				return 20_000
			}
			return 1000
		}, "+2 -30"},
		{"hot, then without a launch", 0.03, 200, func(s int) int {
			if s < 20 {
				return 20_000
			}
			return 0
		}, "+2 -30"},
		{"hot again soon takes longer to cool", 0.03, 100, func(s int) int {
			if s < 10 || s >= 21 && s < 30 {
				return 20_000
			}
			return 0
		}, "+2 -20 +25 -50"},
		{"hot again after a minute does not", 0.03, 200, func(s int) int {
			if s < 10 || s >= 100 && s < 110 {
				return 20_000
			}
			return 0
		}, "+2 -20 +101 -120"},
		{"a pulse each 13 s is switched less and less", 0.03, 1000, func(s int) int {
			if s%13 < 2 {
				return 50_000
			}
			return 0
		}, "+14 -25 +40"},
		{"a pulse each minute", 0.03, 400, func(s int) int {
			if s%60 < 10 {
				return 50_000
			}
			return 0
		}, "+2 -20 +61 -90 +121 -170 +181"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := run(tt.budget, tt.seconds, tt.launches); got != tt.want {
				t.Errorf("switched at %q, want %q", got, tt.want)
			}
		})
	}
}

// Processes are apart, and one that has ended leaves nothing behind.
func TestProcesses(t *testing.T) {
	g := Governor{Budget: 0.03}
	at := time.Unix(1000, 0)
	hot := Use{PID: 1, Launches: 50_000, Cost: 100 * time.Millisecond}
	cold := Use{PID: 2, Launches: 50, Cost: 100 * time.Microsecond}
	g.Tick(at, time.Second, []Use{hot, cold})
	got := g.Tick(at.Add(time.Second), time.Second, []Use{hot, cold})
	if want := (Switch{PID: 1, Counted: true, Share: 0.1}); len(got) != 1 || got[0] != want {
		t.Errorf("switches %+v, want %+v", got, want)
	}
	g.Tick(at.Add(2*time.Second), time.Second, []Use{cold})
	if len(g.procs) != 1 {
		t.Errorf("%d processes are remembered, want 1", len(g.procs))
	}
	if got := g.Tick(at.Add(3*time.Second), time.Millisecond, []Use{hot, cold}); got != nil || len(g.procs) != 1 {
		t.Errorf("a window of 1 ms is too short to judge by: %+v", got)
	}
}
