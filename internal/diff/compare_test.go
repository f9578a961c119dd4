package diff

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// said returns the findings of a pair in words, sorted.
func said(p *Pair) string {
	var out []string
	if p.Step.Found {
		out = append(out, fmt.Sprintf("step %+.0f %%", 100*p.Relative()))
	}
	for _, e := range p.Parts {
		if e.Found {
			out = append(out, fmt.Sprintf("%v %+.1f ms", e.Part, e.Delta()/1e6))
		}
	}
	for _, e := range p.Within {
		if e.Found {
			name := ""
			switch e.Kind {
			case KindOp:
				name = e.Op.String()
			case KindLine:
				name = e.Op.String() + " " + e.Line
			case KindWait:
				name = e.Who
			}
			out = append(out, fmt.Sprintf("%v: %s %+.1f ms", e.Part, name, e.Delta()/1e6))
		}
	}
	for _, e := range p.Counts {
		if e.Found {
			out = append(out, fmt.Sprintf("%v %.2g -> %.2g", e.Op, e.A, e.B))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Only real changes are found.
func TestChanges(t *testing.T) {
	a := record(t, healthy())
	for name, tt := range map[string]struct {
		change func(*loop)
		want   string
	}{
		"nothing":      {func(l *loop) { l.seed, l.seconds = 2, 55 }, ""},
		"noise":        {func(l *loop) { l.seed, l.noise = 3, 0.05 }, ""},
		"another pid":  {func(l *loop) { l.seed, l.pid = 4, 77 }, ""},
		"a hog":        {func(l *loop) { l.hog = 2_000_000 }, "runnable +2.0 ms; runnable: stress-ng +2.0 ms; step +13 %"},
		"half of it":   {func(l *loop) { l.hog, l.hogFrom = 2_000_000, 20 }, ""},
		"more copies":  {func(l *loop) { l.copies = 20 }, "cpu_in_calls +0.9 ms; cpu_in_calls: cudaMemcpyAsync +0.9 ms; cpu_in_calls: cudaMemcpyAsync load() in train.py +0.9 ms; cudaMemcpyAsync 2 -> 20; step +6 %"},
		"slow copies":  {func(l *loop) { l.copyNS = 500_000 }, "cpu_in_calls +0.9 ms; cpu_in_calls: cudaMemcpyAsync +0.9 ms; cpu_in_calls: cudaMemcpyAsync load() in train.py +0.9 ms; step +6 %"},
		"slow GPU":     {func(l *loop) { l.gpu = 15_000_000 }, "gpu_wait +1.0 ms; gpu_wait: cudaStreamSynchronize +1.0 ms; gpu_wait: cudaStreamSynchronize loss() in train.py +1.0 ms; step +7 %"},
		"faster":       {func(l *loop) { l.cpu = 100_000 }, "cpu_between_calls -0.9 ms; step -6 %"},
		"another line": {func(l *loop) { l.line = "fetch" }, ""},
		"more syncs":   {func(l *loop) { l.syncs = 10 }, "cudaStreamSynchronize 0.5 -> 5"},
	} {
		t.Run(name, func(t *testing.T) {
			l := healthy()
			tt.change(&l)
			r := compared(t, a, record(t, l), Options{})
			if len(r.Pairs) != 1 {
				t.Fatalf("%d pairs, only %v, only %v", len(r.Pairs), r.OnlyA, r.OnlyB)
			}
			p := &r.Pairs[0]
			if got := said(p); got != tt.want {
				t.Errorf("found %s\n want %s", got, tt.want)
			}
			sum := 0.0
			for _, e := range p.Parts {
				sum += e.Delta()
			}
			if d := p.Step.Delta(); math.Abs(sum-d) > 1e-3*p.Step.A {
				t.Errorf("the parts differ by %v, the step by %v", sum, d)
			}
		})
	}
}

// Calls that outlast a block count with their time, which the kernel adds when they return.
func TestLongCalls(t *testing.T) {
	l := healthy()
	l.seconds, l.noise, l.gpu, l.cpu, l.counted = 120, 0, 7_000_000_000, 3_000_000_000, true
	a := record(t, l)
	l.gpu = 9_000_000_000
	p := &compared(t, a, record(t, l), Options{}).Pairs[0]
	if got := said(p); p.Anchor != opSync || !strings.Contains(got, "gpu_wait: cudaStreamSynchronize +2000.0 ms") {
		t.Errorf("steps are calls of %v; found %s", p.Anchor, got)
	}
	if i := slices.IndexFunc(p.Calls, func(c CallChange) bool { return c.Op == opSync }); i < 0 || math.Abs(p.Calls[i].TimeA-7e9) > 0.02*7e9 {
		t.Errorf("times of calls: %+v", p.Calls)
	}
}

// Steps that are longer than a block have their whole time, also next to the warm-up and to a stall.
func TestLongSteps(t *testing.T) {
	ten := func(int) int64 { return 10 }
	for name, tt := range map[string]struct {
		a, b         loop
		warm, stalls time.Duration // of b
	}{
		"other length": {steady(100, ten), steady(480, ten), 0, 0},
		"warm-up": {steady(240, func(int) int64 { return 5 }), steady(240, func(step int) int64 {
			if step < 6 {
				return 15
			}
			return 5
		}), 5 * 15 * time.Second, 0}, // the first step is incomplete
		"stall": {steady(480, ten), steady(480, func(step int) int64 {
			if step == 20 {
				return 100
			}
			return 10
		}), 0, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := &compared(t, record(t, tt.a), record(t, tt.b), Options{}).Pairs[0]
			if p.Findings() > 0 || math.Abs(p.Relative()) > 0.005 {
				t.Errorf("%s; a step takes %.3f and %.3f s", said(p), p.Step.A/1e9, p.Step.B/1e9)
			}
			if p.B.Warm != tt.warm || p.B.Stalls != tt.stalls {
				t.Errorf("left out a warm-up of %v and stalls of %v, want %v and %v", p.B.Warm, p.B.Stalls, tt.warm, tt.stalls)
			}
		})
	}
}

// The calls of an operation are reported by run: total, per step, and their time.
func TestCallChanges(t *testing.T) {
	l := healthy()
	l.copies, l.copyNS = 20, 200_000
	p := &compared(t, record(t, healthy()), record(t, l), Options{}).Pairs[0]
	i := slices.IndexFunc(p.Calls, func(c CallChange) bool { return c.Op == testkit.Op("cudaMemcpyAsync") })
	if i < 0 {
		t.Fatalf("no copies in %+v", p.Calls)
	}
	c := &p.Calls[i]
	if math.Abs(c.OncesA-2) > 0.1 || math.Abs(c.OncesB-20) > 1 || c.B < 5*c.A || c.A == 0 || c.TimeB < 8*c.TimeA || c.TimeA == 0 ||
		c.DurA.Count() != c.A || c.DurB.Count() != c.B || c.DurB.Quantile(0.5) < 2*c.DurA.Quantile(0.5) || c.Findings == 0 {
		t.Errorf("copies %+v", *c)
	}
}

// A run compared with itself has no finding and no difference.
func TestItself(t *testing.T) {
	l := healthy()
	l.noise, l.hog, l.hogFrom = 0.2, 3_000_000, 10
	a := record(t, l)
	p := &compared(t, a, a, Options{}).Pairs[0]
	if p.Findings() > 0 || p.Step.Delta() != 0 {
		t.Errorf("%s; step %+v", said(p), p.Step)
	}
	for _, e := range slices.Concat(p.Parts, p.Within, p.Counts) {
		if e.Delta() != 0 {
			t.Errorf("%+v", e)
		}
	}
}

// Processes are matched by program and rank, not PID; roles missing in the other run are reported.
func TestRoles(t *testing.T) {
	var a, b []loop
	for rank := range uint32(3) {
		l := healthy()
		l.seconds, l.seed = 20, uint64(rank)
		l.pid, l.where.Rank = 100+rank, tick.Numbered(rank)
		a = append(a, l)
		l.pid, l.seed = 900-rank, uint64(10+rank)
		if rank == 2 {
			l.cpu *= 3
		}
		b = append(b, l)
	}
	b[0].where.Cmdline = "python3 other.py"
	r := compared(t, record(t, a...), record(t, b...), Options{Programs: []string{"train.py", "other.py"}})
	if len(r.Pairs) != 2 || fmt.Sprint(r.OnlyA) != "[train.py, rank 0]" || fmt.Sprint(r.OnlyB) != "[other.py, rank 0]" {
		t.Fatalf("%d pairs, only %v, only %v", len(r.Pairs), r.OnlyA, r.OnlyB)
	}
	slow := &r.Pairs[0]
	if slow.RoleA.Rank != "2" || !slow.Step.Found || slow.A.PIDs[0] != 102 || slow.B.PIDs[0] != 898 {
		t.Errorf("first: %v, %s, %v and %v", slow.RoleA, said(slow), slow.A.PIDs, slow.B.PIDs)
	}
	if got := said(&r.Pairs[1]); got != "" {
		t.Errorf("%v: %s", r.Pairs[1].RoleA, got)
	}
	if r := compared(t, record(t, a[0]), record(t, b[1]), Options{PIDs: []uint32{100, 899}}); len(r.Pairs) != 1 {
		t.Errorf("one process each: %d pairs", len(r.Pairs))
	}
}

// A run lists each missing input of calls once; missing stacks do not count.
func TestUntimed(t *testing.T) {
	x := healthy()
	x.reports = []tick.Report{
		{Kind: "launches-counted", Object: "train (4821)"}, {Kind: "precision-lost", Object: "hot-off"},
		{Kind: "precision-lost", Object: "launches-counted"}, {Kind: "precision-lost", Object: "stacks-rare"}, {Kind: "precision-back", Object: "calls-counted"},
	}
	r := compared(t, record(t, healthy()), record(t, x), Options{})
	if len(r.A.Untimed) > 0 || !slices.Equal(r.B.Untimed, []string{"launches-counted", "hot-off"}) {
		t.Errorf("%q and %q", r.A.Untimed, r.B.Untimed)
	}
}

// Runs of a few seconds give no result.
func TestShort(t *testing.T) {
	l := healthy()
	l.seconds = 4
	a := record(t, l)
	l.gpu *= 2
	if p := &compared(t, a, record(t, l), Options{}).Pairs[0]; !p.Short || p.Findings() > 0 {
		t.Errorf("short %v: %s", p.Short, said(p))
	}
}

// A recording with removed calls is compared by steps and operations, from rollups.
func TestWithoutCalls(t *testing.T) {
	l := healthy()
	a := record(t, l)
	l.seed, l.copyNS = 2, 500_000
	b := record(t, l)
	for _, path := range []string{a, b} {
		if err := os.RemoveAll(path + ".d"); err != nil {
			t.Fatal(err)
		}
	}
	p := &compared(t, a, b, Options{}).Pairs[0]
	if got, want := said(p), "cpu_in_calls: cudaMemcpyAsync +0.9 ms; step +6 %"; got != want || !p.NoDetail {
		t.Errorf("found %s\n want %s; no detail %v", got, want, p.NoDetail)
	}
	if p := &compared(t, a, a, Options{}).Pairs[0]; p.Findings() > 0 {
		t.Errorf("a run and itself: %s", said(p))
	}
}

// A step means the same in both runs, also if only one has its log, and several processes make steps.
func TestOneWithoutCalls(t *testing.T) {
	first, second := healthy(), healthy()
	second.pid++
	a := record(t, first, second)
	first.seed, second.seed = 2, 2
	b := record(t, first, second)
	if err := os.RemoveAll(a + ".d"); err != nil {
		t.Fatal(err)
	}
	for _, runs := range [][2]string{{a, b}, {b, a}} {
		p := &compared(t, runs[0], runs[1], Options{}).Pairs[0]
		if p.Findings() > 0 || p.Step.Found || math.Abs(p.Relative()) > 0.01 || len(p.A.PIDs) != 2 || !p.NoDetail {
			t.Errorf("%s; a step takes %.3g and %.3g ms, of processes %d", said(p), p.Step.A/1e6, p.Step.B/1e6, p.A.PIDs)
		}
	}
}

// Steps count only while their time is known: the older part of a log is deleted before its counts.
func TestPartOfTheLogDeleted(t *testing.T) {
	l := healthy()
	a := record(t, l)
	l.seed, l.deleted = 2, 15
	b := record(t, l)
	p := &compared(t, a, b, Options{}).Pairs[0]
	if p.Findings() > 0 || p.Step.Found || math.Abs(p.Relative()) > 0.01 {
		t.Errorf("%s; a step takes %.3g and %.3g ms", said(p), p.Step.A/1e6, p.Step.B/1e6)
	}
	if most := time.Duration(l.seconds-l.deleted) * time.Second; p.B.To.Sub(p.B.From) > most {
		t.Errorf("compared %v of a run with accounts of %v", p.B.To.Sub(p.B.From), most)
	}
}

// If the seconds of an old recording are gone, its ten-second blocks are compared.
func TestCoarse(t *testing.T) {
	l := healthy()
	l.seconds = 150
	a := record(t, l)
	l.seed, l.gpu = 2, 15_000_000
	b := record(t, l)
	for _, path := range []string{a, b} {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = db.Exec("DELETE FROM rollups WHERE seconds = 1; UPDATE tiers SET kept_ns = closed_ns WHERE seconds = 1")
		if err := errors.Join(err, db.Close(), os.RemoveAll(path+".d")); err != nil {
			t.Fatal(err)
		}
	}
	r := compared(t, a, b, Options{})
	if got, want := said(&r.Pairs[0]), "gpu_wait: cudaStreamSynchronize +1.0 ms; step +7 %"; got != want || r.A.every != 10*time.Second {
		t.Errorf("found %s\n want %s; blocks of %v", got, want, r.A.every)
	}
}
