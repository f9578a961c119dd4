package loop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// script makes NVTX calls from words: "step(" pushes a range of that name, ")" pops one, "step<3"
// starts range number 3 and ">3" ends it, a number works for that many milliseconds, "G20" waits
// for the GPU for 20 ms, "!" loses a record.
type script struct {
	t    *testing.T
	f    *Finder
	now  int64
	at   tick.Range // of the thread: its times so far
	turn int64      // end of the last GPU wait
	b    tick.Batch
}

func newScript(t *testing.T) *script {
	now := int64(1_800_000_000e9)
	return &script{t: t, f: New(), now: now, turn: now, at: tick.Range{PID: 7, TID: 8}}
}

func (s *script) run(text string) {
	s.t.Helper()
	var steps []ledger.Step
	for _, w := range strings.Fields(text) {
		var ms int64
		name, id, started := strings.Cut(w, "<")
		switch {
		case started:
			s.call("nvtxRangeStartA", name, 0)
			_, _ = fmt.Sscan(id, &ms)
			s.call("nvtxRangeStartA", "", uint64(ms))
		case w[0] == '>':
			_, _ = fmt.Sscan(w[1:], &ms)
			s.call("nvtxRangeEnd", "", uint64(ms))
		case strings.HasSuffix(w, "("):
			s.call("nvtxRangePushA", w[:len(w)-1], 0)
		case w == ")":
			s.call("nvtxRangePop", "", 0)
		case w == "!":
			s.at.Lost++
		case w[0] == 'G':
			_, _ = fmt.Sscan(w[1:], &ms)
			s.now += ms * 1e6
			s.at.Sync.Blocked += uint64(ms) * 1e6
			s.at.InCalls.Blocked += uint64(ms) * 1e6
			x := ledger.Step{PID: s.at.PID, TID: s.at.TID, From: s.turn, To: s.now, Op: opSync, Kind: 7}
			x.Parts.GPUWait = ms * 1e6
			steps, s.turn = append(steps, x), s.now
		default:
			if n, _ := fmt.Sscan(w, &ms); n == 0 {
				s.t.Fatalf("what is %q?", w)
			}
			s.now += ms * 1e6
			s.at.Between.OnCPU += uint64(ms) * 1e6
		}
	}
	s.f.Batch(s.b.Ranges, s.b.Waits, steps)
	s.b = tick.Batch{}
}

func (s *script) call(op, name string, id uint64) {
	r := s.at
	r.Time, r.Op, r.ID = s.now, testkit.Op(op), id
	r.Length = uint8(copy(r.Name[:], name))
	if op == "nvtxRangeStartA" && name == "" {
		r.Flags = tick.RangeReturned
	}
	s.b.Ranges = append(s.b.Ranges, r)
}

func (s *script) tick() *tick.Loop {
	return s.f.Tick()[7]
}

// Of a program's named ranges, those that recur and cover most of the time are its steps. Without
// such ranges, its steps are found as if it named none.
func TestRangesThatAreSteps(t *testing.T) {
	again := func(text string, n int) string { return strings.Repeat(text+" ", n) }
	step := "step( load( 2 ) forward( 3 ) wait( G15 ) ) "
	for name, tt := range map[string]struct {
		text   string
		want   string // "": none
		steps  uint64
		length time.Duration
		waits  int
	}{
		"a step with parts":                {again(step, 20), "step", 20, 20 * time.Millisecond, 1},
		"within one that is the program":   {"main( " + again(step, 20), "step", 20, 20 * time.Millisecond, 1},
		"two waits":                        {again("step( 1 G10 2 G7 )", 20), "step", 20, 20 * time.Millisecond, 2},
		"numbered":                         {"iter1( 5 G5 ) iter2( 5 G5 ) iter3( 5 G5 ) iter10( 5 G5 )", "iter#", 4, 10 * time.Millisecond, 1},
		"a number that is always the same": {again("resnet50( 5 G5 )", 5), "resnet50", 5, 10 * time.Millisecond, 1},
		"epochs of many steps":             {again("epoch( 1 "+again(step, 20)+") ", 5), "step", 100, 20 * time.Millisecond, 1},
		"parts that each wait":             {again("step( "+again("micro( 1 G4 )", 4)+")", 20), "step", 20, 20 * time.Millisecond, 4},
		"many layers wait for nothing":     {again("request( "+again("layer( 1 )", 30)+" G2 )", 20), "request", 20, 32 * time.Millisecond, 1},
		"too few":                          {again(step, 3), "", 0, 0, 0},
		"a small part of the time":         {again("save( 1 ) 20 G20", 20), "", 0, 0, 0},
		"only at first":                    {again(step, 20) + again("10 G10", 30), "", 0, 0, 0},
		"a phase that comes back":          {again(step, 20) + again("10 G10", 60) + again(step, 20), "step", 40, 20 * time.Millisecond, 1},
		"a phase too short to come back":   {again(step, 20) + again("10 G10", 60) + again(step, 15), "", 0, 0, 0},
		"within its like":                  {again("f( 5 f( 5 f( 5 ) ) G5 )", 10), "f", 10, 20 * time.Millisecond, 1},
		"pops without a push":              {") ) " + again(step, 20), "step", 20, 20 * time.Millisecond, 1},
		"a push that nobody pops":          {again("lost( "+step, 60), "step", 60, 20 * time.Millisecond, 1},
		"started and ended":                {again("step<3 5 G15 >3", 10), "step", 10, 20 * time.Millisecond, 1},
		"overlapping":                      {"step<1 10 " + again("step<2 10 >1 step<1 10 >2 ", 10), "step", 20, 20 * time.Millisecond, 0},
		"numbers that nobody gave":         {again("step<0 part<0 5 >0 G15 >0", 10), "step", 10, 20 * time.Millisecond, 1},
		"ends of nothing":                  {">4 >5 " + again(step+">9 ", 10), "step", 10, 20 * time.Millisecond, 1},
		"its first had begun":              {"wait( G60 ) ) " + again("step( 1 wait( G15 ) )", 20), "step", 20, 16 * time.Millisecond, 1},
		"its first phase had begun":        {"wait( G60 ) ) ) " + again("step( 1 phase( wait( G15 ) ) )", 20), "step", 20, 16 * time.Millisecond, 1},
		"a pop is lost":                    {again(step, 9) + "step( 10 ! " + again(step, 10), "step", 19, 20 * time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.run(tt.text)
			l := s.tick()
			if tt.want == "" {
				if l != nil && l.Range != "" {
					t.Errorf("steps of %q, want none", l.Range)
				}
				return
			}
			if l == nil {
				t.Fatal("no loop")
			}
			if l.Range != tt.want || l.Steps < tt.steps-1 || l.Steps > tt.steps || l.Waits != tt.waits || l.P50 < tt.length*99/100 || l.P50 > tt.length*101/100 || l.TID != 8 {
				t.Errorf("%d steps of %q, %v each, %d waits; want %d of %q, %v, %d", l.Steps, l.Range, l.P50, l.Waits, tt.steps, tt.want, tt.length, tt.waits)
			}
		})
	}
}

// The parts of a range are the kernel's, and add up to its length.
func TestPartsOfARange(t *testing.T) {
	a := tick.Range{TID: 1, Time: 1000, InCalls: tick.Times{OnCPU: 5, Blocked: 100}, Sync: tick.Times{Blocked: 90}, Between: tick.Times{OnCPU: 7}}
	b := a
	b.Time += 1000
	b.InCalls = tick.Times{OnCPU: 5 + 150, Runnable: 20, Throttled: 1, Blocked: 100 + 400}
	b.Sync = tick.Times{OnCPU: 50, Runnable: 10, Blocked: 90 + 350}
	b.Between = tick.Times{OnCPU: 7 + 300, Runnable: 29, Blocked: 60}
	want := tick.StepTimes{GPUWait: 400, CallCPU: 100, GapCPU: 300, Runnable: 49, Throttled: 1, Blocked: 110, Unknown: 40}
	if got := between(&a, &b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for name, change := range map[string]func(*tick.Range){
		"another thread": func(r *tick.Range) { r.TID = 2 },
		"no accounts":    func(r *tick.Range) { r.Flags = tick.RangeUnaccounted },
		"none was more":  func(r *tick.Range) { r.InCalls, r.Sync, r.Between = tick.Times{}, tick.Times{}, tick.Times{} },
	} {
		c := b
		change(&c)
		if got := between(&a, &c); got != (tick.StepTimes{Unknown: 1000}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	b.Between.OnCPU += 5000
	sum := time.Duration(0)
	got := between(&a, &b)
	for _, p := range got.Parts() {
		sum += *p
	}
	if sum != 1000 {
		t.Errorf("parts of %d ns in a range of 1000", sum)
	}
}

// The CPU users in a slow range are reported, only for waits inside it.
func TestSlowRangesHaveNames(t *testing.T) {
	s := newScript(t)
	hog := func() {
		s.b.Waits = append(s.b.Waits, events.Wait{PID: 7, TID: 8, Start: s.now, Duration: 9e6, Taken: 9e6, State: events.WaitRunnable, Who: events.Thread{PID: 99, TID: 99, Name: events.NameOf("hog")}})
		s.now += 9e6
		s.at.Between.Runnable += 9e6
	}
	s.run(strings.Repeat("step( 1 G9 ) 1 ", 10))
	hog()
	s.run("1")
	s.call("nvtxRangePushA", "step", 0)
	hog()
	s.run("G9 )")
	s.run(strings.Repeat("step( 1 G9 ) 1 ", 10))
	l := s.tick()
	if len(l.Slowest) == 0 || len(l.Slowest[0].Took) != 1 || l.Slowest[0].Took[0].NS != 9e6 || l.Slowest[0].Times.Runnable != 9e6 {
		t.Fatalf("the slowest: %+v", l.Slowest)
	}
	for _, x := range l.Slowest[1:] {
		if len(x.Took) != 0 {
			t.Errorf("%v: %+v", x.Length(), x.Took)
		}
	}
	if l = s.tick(); len(l.Recent) != 0 {
		t.Errorf("%d recent steps a tick later", len(l.Recent))
	}
}

// While other ranges than the main ones are the steps, the tick has them, too.
func TestOtherRanges(t *testing.T) {
	s := newScript(t)
	train, eval := strings.Repeat("train( fit( 5 G5 ) ) ", 2000), strings.Repeat("eval( infer( 5 G5 ) ) ", 100)
	s.run(train)
	first := s.tick()
	s.run(eval)
	s.tick()
	for range 12 {
		s.run(eval)
	}
	l := s.tick()
	if first.Range != "train" || l.ID != first.ID || len(l.Others) != 1 || l.Others[0].Range != "eval" || l.Others[0].Steps != 1300 {
		t.Fatalf("%s with %d others, want train with eval's 1300 steps", l.Range, len(l.Others))
	}
	s.run(train)
	again := s.tick()
	if len(again.Others) != 1 || again.Others[0].ID != l.Others[0].ID || again.Others[0].Steps != 1300 {
		t.Errorf("%d others after the next steps", len(again.Others))
	}
}

// Ranges that a program has repeated for a minute instead of the main ones are the current steps. Parts of a
// step that takes a minute are not.
func TestCurrentRanges(t *testing.T) {
	s := newScript(t)
	parts := func(n int) string { return strings.Repeat("micro( 50 G50 ) ", n) }
	steps := func(n int) string { return strings.Repeat("train( "+parts(8)+") ", n) }
	s.run(steps(2))
	if l := s.tick(); l.Range != "micro" {
		t.Fatalf("the first steps: %+v, want micro", l)
	}
	s.run(steps(300))
	s.tick()
	s.run("train( " + parts(700))
	if l := s.tick(); l.Range != "train" || len(l.Others) != 1 || l.Now != nil {
		t.Errorf("in a long step: %+v, want its parts among the others only", l)
	}
	s.run(")")
	s.tick()
	for _, tt := range []struct {
		ranges int
		want   bool
	}{{550, false}, {100, true}} {
		s.run(strings.Repeat("eval( 50 G50 ) ", tt.ranges))
		l := s.tick()
		if l.Range != "train" || (l.Now != nil) != tt.want {
			t.Fatalf("after %d more: %+v", tt.ranges, l)
		}
		if tt.want && (l.Now.Range != "eval" || l.Now.Steps != 650) {
			t.Errorf("the current steps are %+v, want 650 of eval", l.Now)
		}
	}
}

// Memory is bounded for any calls, and steps are still found in a program whose other names are all
// different.
func TestRangesAreBounded(t *testing.T) {
	s := newScript(t)
	r := rand.New(rand.NewPCG(3, 4))
	word := func() string {
		b := make([]byte, 1+r.IntN(40))
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	for range 300 {
		s.run("step( 1 " + word() + "( 1 ) " + word() + "( G9 ) " + word() + "<5 1 >6 )")
	}
	if l := s.tick(); l == nil || l.Range != "step" || l.Steps != 300 {
		t.Errorf("%+v, want 300 steps", l)
	}
	ops := []string{"nvtxRangePushA", "nvtxRangePop", "nvtxRangeStartA", "nvtxRangeEnd", "nvtxDomainRangePushEx", "nvtxDomainRangePop"}
	for range 20_000 {
		s.at.TID, s.at.PID = 10+r.Uint32N(2*maxThreads), r.Uint32N(3)
		s.now += r.Int64N(1000) - 100
		s.call(ops[r.IntN(len(ops))], word(), r.Uint64N(9))
		s.run("")
	}
	open := 0
	for _, m := range s.f.marked {
		open = max(open, len(m.open))
	}
	if len(s.f.marked) != maxThreads || s.f.names > allNames || open > mostOpen {
		t.Errorf("%d threads, %d names, %d open", len(s.f.marked), s.f.names, open)
	}
	for range idleTicks + 2 {
		s.f.Tick()
	}
	if len(s.f.marked)+s.f.names != 0 {
		t.Errorf("%d threads and %d names stay", len(s.f.marked), s.f.names)
	}
}

func BenchmarkRanges(b *testing.B) {
	s := newScript(nil)
	for range 10 { // of a step
		s.call("nvtxRangePushA", "forward", 0)
		s.now += 1000
		s.call("nvtxRangePop", "", 0)
	}
	batch := s.b
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch.Ranges {
			batch.Ranges[i].Time += 1e6
		}
		s.f.Batch(batch.Ranges, batch.Waits, nil)
	}
}
