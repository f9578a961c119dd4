package causal

import (
	"math"
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
)

const codeStack = 77 // of long gaps

// codeOf runs 1,500 steps of 10 ms, each with a time of the job's own code before its launches, and
// returns the chains of own-code.
func codeOf(code func(n int) int64) (out []tick.Chain) {
	x := newSimThread(7, 7, 42)
	for n := range 1500 {
		x.use(x.vary(code(n), 0.1))
		for range 10 {
			x.launch(6*us, x.vary(800*us, 0.02))
		}
		x.sync(false)
	}
	for i := range x.calls {
		if c := &x.calls[i]; c.GapOnCPU >= 10*ms {
			c.GapStack = codeStack
		}
	}
	for _, c := range feed(&tick.Batch{Calls: x.calls, Waits: x.waits}, start, 10*ms) {
		if c.Rule == ownCode.Name {
			out = append(out, c)
		}
	}
	return out
}

// The job's own code is a cause if it takes longer than usual for a while, and enough.
func TestOwnCode(t *testing.T) {
	const usual = 2 * ms
	in := func(from, to int, more int64) func(int) int64 {
		return func(n int) int64 {
			if n >= from && n < to {
				return usual + more
			}
			return usual
		}
	}
	for name, tt := range map[string]struct {
		code  func(n int) int64
		lost  time.Duration // 0: no chain
		steps int
	}{
		"for a while":                        {in(500, 600, 30*ms), 3 * time.Second, 100},
		"from then on":                       {in(1200, 1500, 30*ms), 9 * time.Second, 300},
		"until the end of the first half":    {in(0, 300, 30*ms), 9 * time.Second, 300},
		"less than twice the usual":          {in(500, 600, 1500*us), 0, 0},
		"a small share of the time":          {in(500, 515, 30*ms), 0, 0},
		"in two steps":                       {in(500, 502, 900*ms), 0, 0},
		"in one step, for long":              {in(500, 501, 4000*ms), 4 * time.Second, 1},
		"always":                             {func(int) int64 { return 30 * ms }, 0, 0},
		"in each fifth step":                 {func(n int) int64 { return usual + int64(n%5/4)*30*ms }, 0, 0},
		"in each fiftieth step":              {func(n int) int64 { return usual + int64(n%50/49)*200*ms }, 0, 0},
		"in three steps, evenly":             {func(n int) int64 { return usual + int64(n%500/499)*900*ms }, 0, 0},
		"in longer and longer steps, evenly": {func(n int) int64 { return usual + int64(n%100/99*(1+n/300))*400*ms }, 0, 0},
		"for a while, and a little, evenly": {func(n int) int64 {
			return usual + int64(n%20/19)*11*ms + in(500, 600, 30*ms)(n) - usual
		}, 4 * time.Second, 170},
		"in three steps, one after another": {in(500, 503, 900*ms), 2700 * time.Millisecond, 3},
	} {
		t.Run(name, func(t *testing.T) {
			got := codeOf(tt.code)
			if tt.lost == 0 {
				if len(got) > 0 {
					t.Errorf("a chain: %v lost, %q", got[0].Lost, got[0].Culprits[0].What)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("%d chains", len(got))
			}
			c := &got[0]
			if off := math.Abs(float64(c.Lost - tt.lost)); off > 0.15*float64(tt.lost) || c.LostMin > tt.lost || c.LostMax < tt.lost {
				t.Errorf("lost %v, %v to %v, want %v", c.Lost, c.LostMin, c.LostMax, tt.lost)
			}
			if off := c.Slow - tt.steps; off < -tt.steps/10 || off > tt.steps/10 {
				t.Errorf("%d slow steps, want %d", c.Slow, tt.steps)
			}
			if x := c.Culprits[0]; !x.Own || x.Thread.PID != 7 || x.Stack != codeStack || !strings.HasPrefix(x.What, "computed for ") || strings.Contains(x.What, "slept") {
				t.Errorf("the culprit is %+v", x)
			}
		})
	}
}

// Steps that do other work do not count, and neither do those whose calls were not all measured.
func TestNotOwnCode(t *testing.T) {
	steps := make([]step, 200)
	for i := range steps {
		r := &record{from: start + int64(i)*20*ms, length: 10 * ms, gap: ms, gpu: 9 * ms}
		if i >= 100 && i < 120 {
			r.length, r.gap = 50*ms, 41*ms
		}
		steps[i] = step{sample: sample{r, 1}}
	}
	w := &Window{e: New(1)}
	if got := w.slowAlike(steps, false); len(got) != 20 || got[0].lost != 40*ms || got[0].at != 100 {
		t.Fatalf("%d slow steps: %+v", len(got), got)
	}
	for name, change := range map[string]func(x *step){
		"a graph is captured":             func(x *step) { x.marks = ledger.MarkCapture },
		"code is loaded":                  func(x *step) { x.marks = ledger.MarkModule },
		"after a failed allocation":       func(x *step) { x.marks = markAfter },
		"launches were only counted":      func(x *step) { x.shed = taking(allTimes) },
		"and for a part of the step":      func(x *step) { x.shed = taking(allTimes) << 16 },
		"other causes explain more":       func(x *step) { x.sum = 60 * ms },
		"it waited longer for a CPU":      func(x *step) { x.waited = 60 * ms },
		"the steps are not longer":        func(x *step) { x.length = 10 * ms },
		"it waited for data all the time": func(x *step) { x.awaited = 40 * ms },
	} {
		t.Run(name, func(t *testing.T) {
			changed := make([]step, len(steps))
			for i := range steps {
				r := *steps[i].record
				changed[i] = step{sample: sample{&r, 1}}
				if i >= 100 && i < 120 {
					change(&changed[i])
				}
			}
			if got := w.slowAlike(changed, false); len(got) > 0 {
				t.Errorf("%d slow steps: %+v", len(got), got[0])
			}
		})
	}
}

// Slow steps that lose much less than the others do not tell a habit; slightly less does not matter.
func TestDecisive(t *testing.T) {
	var slow []slowStep
	for i := range 220 {
		x := slowStep{step: &step{sample: sample{&record{}, 1}}, lost: 1 * ms}
		switch {
		case i < 40:
			x.lost = 100 * ms
		case i < 44:
			x.lost = 90 * ms
		}
		slow = append(slow, x)
	}
	if got := len(decisive(slow)); got != 44 {
		t.Errorf("%d decisive steps, want 44", got)
	}
}

// Slow steps recur if the time between any two is about the same. Its other work, and what shorter slow steps lose,
// does not count.
func TestRecurs(t *testing.T) {
	for name, tt := range map[string]struct {
		other int // index of a step that takes a second longer
		marks ledger.Marks
		short bool // it is a slow step, but shorter than the others
		want  bool
	}{
		"at a pace":           {other: -1, want: true},
		"not for a second":    {other: 45},
		"a module was loaded": {other: 45, marks: ledger.MarkModule, want: true},
		"a shorter slow step": {other: 45, short: true, want: true},
	} {
		steps := make([]step, 100)
		at := start
		var long, all []slowStep
		for i := range steps {
			r := &record{from: at, length: 10 * ms}
			if i == tt.other {
				r.length, r.marks = s1, tt.marks
			}
			if i%10 == 9 {
				r.length = 3 * s1
			}
			at += r.length
			steps[i] = step{sample: sample{r, 1}}
			x := slowStep{step: &steps[i], at: i, lost: r.length - 10*ms}
			if i%10 == 9 {
				long = append(long, x)
			}
			if i%10 == 9 || i == tt.other && tt.short {
				all = append(all, x)
			}
		}
		if got := recurs(long, all, steps); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
