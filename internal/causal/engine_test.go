package causal

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// made returns steps of 15 ms of a thread; every nth lost some time to a neighbor after the GPU
// finished.
func made(count, nth int, lost int64, who events.Thread) []ledger.Step {
	now := start
	var out []ledger.Step
	for i := range count {
		s := ledger.Step{PID: 7, TID: 7, From: now, Op: 0x0140, Kind: 1}
		s.To = now + 15*ms + int64(i%7)*10*us
		s.Parts.GPUWait = s.Length()
		if nth > 0 && i%nth == 0 {
			s.To += lost
			s.Parts.SyncRunnable = lost
			s.Loss = ledger.Loss{Est: lost, Min: lost, Max: lost}
			s.Waits = []ledger.Wait{{NS: lost, Count: 1, First: s.To - lost, Last: s.To, Who: who, Op: s.Op, State: events.WaitRunnable, Critical: true}}
		}
		now = s.To
		out = append(out, s)
	}
	return out
}

func chainsOf(e *Engine, at int64) []tick.Chain {
	t := tick.Tick{Time: time.Unix(0, at)}
	chains, _ := e.Tick(&t)
	return chains
}

var stress = events.Thread{PID: 8821, TID: 8822, Name: events.NameOf("stress-ng")}

// The thresholds for reporting a loss, and its severity.
func TestSeverity(t *testing.T) {
	for _, tt := range []struct {
		name string
		nth  int
		lost int64
		want tick.Severity // 0: no chain
	}{
		{"1.41 s of a minute in 412 of 3801 steps", 9, 3400 * us, tick.High},
		{"2.2 %", 10, 3400 * us, tick.High},
		{"1.7 %", 10, 2600 * us, tick.Medium},
		{"1.2 %", 10, 1850 * us, tick.Low},
		{"0.8 %", 10, 1200 * us, 0},
		{"much of few steps", 400, 15 * ms, 0},
		{"little of every step", 1, 100 * us, 0},
		{"nothing", 0, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := New(1)
			steps := made(3801, tt.nth, tt.lost, stress)
			e.Add(steps)
			got := chainsOf(e, steps[len(steps)-1].To)
			if len(got) == 0 && tt.want == 0 {
				return
			}
			if len(got) != 1 || got[0].Severity != tt.want {
				show(t, got)
				t.Fatalf("%d chains, want one of severity %q", len(got), tt.want)
			}
			c := &got[0]
			if x := c.Culprits[0]; x.Thread != stress || x.Agent || x.Own {
				t.Errorf("culprit %+v", x)
			}
			if c.StepP99-c.Without < time.Duration(tt.lost)*9/10 || c.Without < 15*time.Millisecond {
				t.Errorf("p99 %v, without the cause %v", c.StepP99, c.Without)
			}
			if c.Confidence < 0.9 || c.Confidence > 1 {
				t.Errorf("confidence %v", c.Confidence)
			}
		})
	}
}

// Ingero is a culprit like any other.
func TestAgent(t *testing.T) {
	e := New(stress.PID)
	steps := made(1000, 3, 3*ms, stress)
	e.Add(steps)
	got := chainsOf(e, steps[999].To)
	if len(got) != 1 || !got[0].Culprits[0].Agent {
		t.Errorf("%+v", got)
	}
}

// A chain is kept unchanged for five minutes under the same ID, and no longer.
func TestKept(t *testing.T) {
	e := New(1)
	steps := made(1000, 3, 3*ms, stress)
	e.Add(steps)
	end := steps[999].To
	first := chainsOf(e, end)
	if len(first) != 1 {
		t.Fatal("no chain")
	}
	healthy := moved(made(5000, 0, 0, stress), end-start) // longer than the window
	for _, tt := range []struct {
		after int64
		add   int
		want  int
	}{{50, 3300, 1}, {100, 1700, 1}, {290, 0, 1}, {310, 0, 0}} {
		e.Add(healthy[:tt.add])
		healthy = healthy[tt.add:]
		got := chainsOf(e, end+tt.after*s1)
		if len(got) != tt.want {
			t.Errorf("%d s later: %d chains, want %d", tt.after, len(got), tt.want)
		}
		if len(got) == 1 && !reflect.DeepEqual(got[0], first[0]) {
			t.Errorf("it has changed:\n%+v\n%+v", got[0], first[0])
		}
	}
}

func moved(steps []ledger.Step, by int64) []ledger.Step {
	for i := range steps {
		steps[i].From += by
		steps[i].To += by
		for j := range steps[i].Waits {
			steps[i].Waits[j].First += by
			steps[i].Waits[j].Last += by
		}
	}
	return steps
}

// A later incident of the same kind renews its chain.
func TestRenewed(t *testing.T) {
	e := New(1)
	steps := made(1000, 3, 3*ms, stress)
	e.Add(steps)
	end := steps[999].To
	first := chainsOf(e, end)
	again := moved(made(1000, 2, 5*ms, stress), end-start+100*s1)
	e.Add(again)
	got := chainsOf(e, again[999].To)
	if len(got) != 1 || len(first) != 1 || got[0].ID != first[0].ID || !got[0].From.After(first[0].To) || got[0].Lost <= first[0].Lost {
		t.Errorf("%+v\n%+v", first, got)
	}
}

// Two threads that lose time in parallel lose it once; two processes lose it twice.
func TestThreadsAndProcesses(t *testing.T) {
	e := New(1)
	for _, x := range []struct{ pid, tid uint32 }{{7, 7}, {7, 8}, {9, 9}} {
		steps := made(1000, 3, 3*ms, stress)
		for i := range steps {
			steps[i].PID, steps[i].TID = x.pid, x.tid
		}
		e.Add(steps)
	}
	got := chainsOf(e, start+20*s1)
	if len(got) != 2 || got[0].PID == got[1].PID || got[0].ID == got[1].ID {
		show(t, got)
		t.Fatalf("%d chains", len(got))
	}
	if lost := got[0].Lost; lost > 1100*time.Millisecond {
		t.Errorf("lost %v", lost)
	}
}

// Many small programs of different names are one cause.
func TestSeveral(t *testing.T) {
	e := New(1)
	steps := made(3000, 2, 2*ms, stress)
	for i := range steps {
		for j := range steps[i].Waits {
			k := uint32(i / 2 % 40)
			steps[i].Waits[j].Who = events.Thread{PID: 1000 + k, TID: 1000 + k, Name: events.NameOf("prog" + string(rune('A'+k)))}
		}
	}
	e.Add(steps)
	got := chainsOf(e, steps[2999].To)
	if len(got) != 1 || len(got[0].Culprits) != maxCulprits || got[0].Severity != tick.High {
		show(t, got)
		t.Fatalf("%d chains", len(got))
	}
	if got[0].Lost < 2700*time.Millisecond || got[0].Lost > 3300*time.Millisecond {
		t.Errorf("lost %v, want 3 s", got[0].Lost)
	}
}

// Batches of other sizes give the same chains.
func TestPortions(t *testing.T) {
	sc := read(t, "testdata/hog-spin-arrives.txt")
	var all tick.Batch
	x := sc.play(t, sc.threads[0], false)
	all.Calls, all.Waits = x.calls, x.waits
	want := feed(&all, start, 10*ms)
	for _, poll := range []int64{3 * ms, 8 * ms, 125 * ms} {
		if got := feed(&all, start, poll); len(want) == 0 || !close(got, want) {
			show(t, got)
			show(t, want)
			t.Errorf("polls of %v ms give another answer", poll/ms)
		}
	}
	if again := feed(&all, start, 10*ms); !reflect.DeepEqual(again, want) {
		t.Error("the same input gave another answer")
	}
}

// close reports whether two results have the same causes and differ by at most one step at the end.
func close(a, b []tick.Chain) bool {
	return slices.EqualFunc(a, b, func(a, b tick.Chain) bool {
		return a.ID == b.ID && a.Severity == b.Severity && math.Abs(float64(a.Lost-b.Lost)) < 0.001*float64(b.Lost) && a.From.Equal(b.From)
	})
}

// Memory is bounded for any number of threads, processes and culprits, and what is gone is dropped.
func TestBounded(t *testing.T) {
	e := New(1)
	r := rand.New(rand.NewPCG(1, 1))
	now := start
	for round := range 120 {
		for range 3000 {
			s := made(1, 1, r.Int64N(9*ms), events.Thread{PID: r.Uint32(), TID: r.Uint32(), Name: events.NameOf("x")})
			s[0].PID, s[0].TID, s[0].Kind = r.Uint32N(20), r.Uint32N(2000), r.Uint32()
			e.Add(moved(s, now-start))
		}
		now += s1
		if round%10 == 0 {
			chainsOf(e, now)
		}
	}
	records := 0
	for _, s := range e.series {
		for i := range s.slots {
			records += len(s.slots[i].excess.list) + len(s.slots[i].free.list)
		}
	}
	if len(e.series) > maxSeries || len(e.causes.list) > maxCauses+maxUnnamed || records > 2*maxRecords {
		t.Errorf("%d series, %d culprits, %d records", len(e.series), len(e.causes.list), records)
	}
	for range windowSeconds {
		chainsOf(e, now+1000*s1)
	}
	if len(e.series)+len(e.causes.byID)+len(e.kept) != 0 {
		t.Errorf("%d series, %d culprits, %d chains are left", len(e.series), len(e.causes.byID), len(e.kept))
	}
}

// Every rule has a distinct name and a description.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules {
		if r.Name == "" || seen[r.Name] || r.Doc == "" || r.Needs == 0 {
			t.Errorf("rule %+v", r)
		}
		seen[r.Name] = true
		if c := r.Claims; c != nil && (c.Part == nil || c.Key == nil || c.Blame == nil || r.Share < 0.01 || r.Slow < 1) {
			t.Errorf("rule %s does not say all of what it claims: %+v", r.Name, c)
		}
		if r.Claims == nil && r.Find == nil {
			t.Errorf("rule %s finds nothing", r.Name)
		}
	}
	for _, r := range Rules {
		for _, name := range r.Instead {
			if !seen[name] || name == r.Name {
				t.Errorf("rule %s speaks of %q", r.Name, name)
			}
		}
	}
	for _, name := range tick.WaitRules {
		if !seen[name] {
			t.Errorf("tick.WaitRules has %q, which is no rule", name)
		}
	}
	if len(Rules) > maxRules {
		t.Errorf("%d rules, room for %d", len(Rules), maxRules)
	}
}

func FuzzEngine(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"))
	for i := range uint64(4) {
		r := rand.New(rand.NewPCG(i, 6))
		b := make([]byte, 3000)
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 4096)] // more input is slower and covers nothing new
		e := New(1)
		next := func() int64 {
			if len(data) < 9 {
				data = nil
				return 0
			}
			v := int64(binary.LittleEndian.Uint64(data[1:])) >> (data[0] % 64)
			data = data[9:]
			return v
		}
		now := start
		for len(data) > 0 {
			var steps []ledger.Step
			length := next() & (1<<32 - 1)
			for i := range next() & 63 {
				s := made(1, 1, length, stress)[0]
				s.From, s.To = now, now+s.Length()+i
				s.Parts.GPUWait, s.Period, s.Kind = next(), next()%7 == 0, uint32(next())%3
				s.Loss = ledger.Loss{Est: next(), Min: next(), Max: next()}
				s.Waits[0].State, s.Waits[0].Reason, s.Waits[0].NS = events.WaitState(next()), events.Reason(next()), next()
				s.Waits[0].Critical = next()%2 == 0
				s.Ops = []ledger.OpTime{{Op: events.Op(next()), Seen: uint32(next()), NS: next(), Own: next()}}
				now = s.To
				steps = append(steps, s)
			}
			e.Add(steps)
			for _, c := range chainsOf(e, now) {
				if !(c.Confidence >= 0 && c.Confidence <= 1) || c.Lost < 0 || c.LostMin > c.Lost || c.LostMax < c.Lost || len(c.Culprits) == 0 || c.Slow > c.Steps+1 {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	for _, x := range []struct {
		name string
		nth  int
	}{{"free", 0}, {"held", 1}} {
		b.Run(x.name, func(b *testing.B) {
			steps := made(4096, x.nth, ms, stress)
			e := New(1)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				e.Add(steps)
				n += len(steps)
				moved(steps, 65*s1)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/step")
		})
	}
}

func BenchmarkTick(b *testing.B) {
	for _, x := range []struct {
		name string
		nth  int
	}{{"healthy", 0}, {"hog", 3}} {
		b.Run(x.name, func(b *testing.B) {
			steps := made(4000, x.nth, 3*ms, stress)
			e := New(1)
			e.Add(steps)
			b.ReportAllocs()
			for b.Loop() {
				chainsOf(e, steps[3999].To)
			}
		})
	}
}

// A large loss of the first seconds may be small in a minute: while all of it is in the window, it
// is judged anew.
func TestRevised(t *testing.T) {
	steps := made(300, 6, 3*ms, stress)
	e := New(1)
	e.Add(steps)
	end := steps[299].To
	first := chainsOf(e, end)
	e.Add(moved(made(600, 0, 0, stress), end-start))
	second := chainsOf(e, end+9*s1)
	e.Add(moved(made(2700, 0, 0, stress), end-start+9*s1+100*ms))
	third := chainsOf(e, end+50*s1)
	if len(first) != 1 || first[0].Severity != tick.High || len(second) != 1 || second[0].Severity != tick.Low || second[0].Window <= first[0].Window || len(third) != 0 {
		show(t, first)
		show(t, second)
		show(t, third)
		t.Errorf("%d, %d, %d chains", len(first), len(second), len(third))
	}
}
