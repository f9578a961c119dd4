package loop

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

var (
	opSync  = testkit.Op("cudaStreamSynchronize")
	opEvent = testkit.Op("cudaEventSynchronize")
)

// program makes turns from letters: each letter is a place in the program where it waits for the
// GPU, A for 10 ms, B for 20 ms and so on.
type program struct {
	f    *Finder
	now  int64
	vary *rand.Rand // nil: each turn has the same calls each time
	// times is the multiple of the letter's launches; 0: none are seen.
	times uint32
}

func newProgram() *program { return &program{f: New(), now: 1_800_000_000e9, times: 1} }

// run makes a turn for each letter. A lower-case letter is a slow turn: another program has its CPU
// for 50 ms.
func (p *program) run(letters string) {
	for _, c := range letters {
		upper := c &^ 0x20
		n := int64(upper-'A') + 1
		s := ledger.Step{PID: 7, TID: 8, From: p.now, To: p.now + n*10e6, Op: opSync, Kind: uint32(opSync) << 16}
		if n%2 == 0 {
			s.Op, s.Kind = opEvent, uint32(opEvent)<<16
		}
		s.Parts.GPUWait = n * 10e6
		count := uint32(100 * n)
		if p.vary != nil {
			count += p.vary.Uint32N(30)
		}
		s.Kind |= 7
		s.Launches = count * p.times
		if c != upper {
			s.To += 50e6
			s.Parts.SyncRunnable = 50e6
			s.Waits = []ledger.Wait{{NS: 50e6, Count: 5, State: events.WaitRunnable, Who: events.Thread{PID: 99, TID: 99, Name: events.NameOf("hog")}}}
		}
		p.now = s.To
		p.f.Add([]ledger.Step{s})
	}
}

func (p *program) tick() *tick.Loop {
	return p.f.Tick()[7]
}

// Any repetition is found, and each of its steps is counted.
func TestLoopsAreFound(t *testing.T) {
	for name, tt := range map[string]struct {
		turns  string
		vary   bool
		waits  int
		length time.Duration
		steps  uint64 // minimum, and at most two more
	}{
		"one wait a step":             {strings.Repeat("A", 100), false, 1, 10 * time.Millisecond, 100},
		"two waits":                   {strings.Repeat("AB", 100), false, 2, 30 * time.Millisecond, 99},
		"begun in the middle":         {"BC" + strings.Repeat("ABC", 60), false, 3, 60 * time.Millisecond, 59},
		"a place thrice":              {strings.Repeat("AAAB", 50), false, 4, 50 * time.Millisecond, 49},
		"other data each time":        {strings.Repeat("AB", 100), true, 2, 30 * time.Millisecond, 94},
		"a line of log each tenth":    {strings.Repeat(strings.Repeat("A", 9)+"D", 40), false, 1, 10 * time.Millisecond, 398},
		"a checkpoint now and then":   {strings.Repeat(strings.Repeat("ABC", 20)+"FABC", 8), false, 3, 60 * time.Millisecond, 166},
		"an odd end":                  {strings.Repeat(strings.Repeat("ABC", 10)+"ABE", 12), false, 3, 60 * time.Millisecond, 130},
		"long":                        {strings.Repeat("ABCDEFGHIJKLMNOPQRST", 20), false, 20, 2100 * time.Millisecond, 19},
		"twelve turns are not enough": {"ABCDEFGHIJ", false, 0, 0, 0},
		"first something else":        {"FEDCBAFBDEACEBDFAC" + strings.Repeat("AB", 150), false, 2, 30 * time.Millisecond, 154},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram()
			if tt.vary {
				p.vary = rand.New(rand.NewPCG(1, 1))
			}
			p.run(tt.turns)
			l := p.tick()
			if tt.waits == 0 {
				if l != nil {
					t.Errorf("a loop %+v, want none", l)
				}
				return
			}
			if l == nil {
				t.Fatal("no loop was found")
			}
			if l.Waits != tt.waits || l.P50 < tt.length*99/100 || l.P50 > tt.length*101/100 || l.Steps < tt.steps || l.Steps > tt.steps+2 || l.TID != 8 {
				t.Errorf("%d steps of %d waits, %v each, in thread %d; want %d of %d, %v", l.Steps, l.Waits, l.P50, l.TID, tt.steps, tt.waits, tt.length)
			}
		})
	}
}

// Without a repetition there is no loop.
func TestNoLoop(t *testing.T) {
	p := newProgram()
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		p.run(string(rune('A' + r.IntN(12))))
	}
	if l := p.tick(); l != nil {
		t.Errorf("a loop of %d waits in chance", l.Waits)
	}
}

// The slowest steps are reported with their times and CPU users; Recent has only those of one tick.
// The parts of each add up to its length.
func TestSlowestSteps(t *testing.T) {
	p := newProgram()
	p.run(strings.Repeat("AB", 30))
	p.tick()
	from := time.Unix(0, p.now)
	p.run("AbABab" + strings.Repeat("AB", 30))
	l := p.tick()
	want := []time.Duration{130 * time.Millisecond, 80 * time.Millisecond, 30 * time.Millisecond}
	for i := range want {
		s := &l.Slowest[i]
		var sum time.Duration
		for _, part := range s.Times.Parts() {
			sum += *part
		}
		if s.Length() != want[i] || sum != want[i] {
			t.Errorf("the slowest, %d: %v, of which %v; want %v", i, s.Length(), sum, want[i])
		}
	}
	s := &l.Slowest[1]
	if !s.From.Equal(from) || len(s.Took) != 1 || s.Took[0].Who.Name.String() != "hog" || s.Took[0].NS != 50e6 || s.Took[0].Own {
		t.Errorf("%+v, want the hog's 50 ms at %v", s, from)
	}
	if l.Usual.GPUWait < 29*time.Millisecond || l.Usual.GPUWait > 31*time.Millisecond || l.Usual.Runnable != 0 {
		t.Errorf("usual: %+v", l.Usual)
	}
	if len(l.Recent) != tick.SlowSteps {
		t.Errorf("%d recent steps", len(l.Recent))
	}
	if l = p.tick(); len(l.Recent) != 0 || len(l.Slowest) != tick.SlowSteps {
		t.Errorf("a tick later: %d recent, %d slowest", len(l.Recent), len(l.Slowest))
	}
}

// A program that changes to another loop has both; the one with more time is reported.
func TestTheLongerLoopIsTold(t *testing.T) {
	p := newProgram()
	p.run(strings.Repeat("AB", 100))
	p.run(strings.Repeat("CDE", 300))
	if l := p.tick(); l == nil || l.Waits != 3 || l.Steps < 230 {
		t.Errorf("%+v, want the loop of three", l)
	}
}

// While a program repeats something else, the tick has both loops. A loop without new steps is the same
// value as before.
func TestOtherLoops(t *testing.T) {
	p := newProgram()
	p.run(strings.Repeat("ABC", 200))
	first := p.tick()
	p.run(strings.Repeat("DE", 100))
	second := p.tick()
	if second.ID != first.ID || second.Steps < first.Steps || len(second.Others) != 1 || len(first.Others) != 0 {
		t.Fatalf("others: %d and %d, want none and one", len(first.Others), len(second.Others))
	}
	eval := second.Others[0]
	if eval.ID == first.ID || eval.Waits != 2 || eval.Steps < 50 || len(eval.Recent) != tick.SlowSteps || len(eval.Slowest) != tick.SlowSteps {
		t.Errorf("the other: %+v", eval)
	}
	p.run(strings.Repeat("ABC", 100))
	third := p.tick().Others[0]
	if third.ID != eval.ID || third.Steps < eval.Steps {
		t.Errorf("the other, later: %+v", third)
	}
	p.tick()
	p.run(strings.Repeat("ABC", 100))
	fourth := p.tick().Others[0]
	p.run(strings.Repeat("ABC", 100))
	if fifth := p.tick().Others[0]; fifth != fourth || len(fifth.Recent) != 0 {
		t.Errorf("it is made anew without new steps, with %d recent ones", len(fifth.Recent))
	}
	p.run(strings.Repeat("DE", 2000))
	if l := p.tick(); l.ID != eval.ID || len(l.Others) != 1 || l.Others[0].ID != first.ID {
		t.Errorf("in the end %d has the longest total, want %d", l.ID, eval.ID)
	}
}

// A loop that a program has repeated for a minute instead of the main one is the current one.
func TestCurrentLoop(t *testing.T) {
	p := newProgram()
	p.run(strings.Repeat("ABC", 2000))
	p.tick()
	p.run(strings.Repeat("DE", 600))
	if l := p.tick(); l.Waits != 3 || len(l.Others) != 1 || l.Now != nil {
		t.Fatalf("after 54 s: %+v, want another loop, not yet the current one", l)
	}
	p.run(strings.Repeat("DE", 200))
	if l := p.tick(); l.Waits != 3 || l.Now == nil || l.Now.ID != l.Others[0].ID || len(l.Now.Recent) == 0 {
		t.Errorf("after 72 s: %+v, want the other loop as the current one", l)
	}
	p.run(strings.Repeat("ABC", 100))
	if l := p.tick(); l.Now != nil {
		t.Errorf("back in the main loop: %+v, want no other", l.Now)
	}
}

// A loop stays the same when its launches increase, or are not seen for a while.
func TestLoopsWithOtherLaunches(t *testing.T) {
	p := newProgram()
	for _, times := range []uint32{1, 10, 0, 10, 1} {
		p.times = times
		p.run(strings.Repeat("AB", 100))
	}
	if l := p.tick(); l == nil || l.Waits != 2 || l.Steps < 495 || l.Steps > 500 {
		t.Errorf("%+v, want 500 steps of two waits", l)
	}
}

// Memory is bounded for any number of threads.
func TestThreadsAreBounded(t *testing.T) {
	f := New()
	for tid := range uint32(3 * maxThreads) {
		f.Add([]ledger.Step{{PID: 1, TID: tid, From: 1, To: 2}})
	}
	if len(f.threads) != maxThreads {
		t.Errorf("%d threads", len(f.threads))
	}
	for range idleTicks + 2 {
		f.Tick()
	}
	if len(f.threads) != 0 {
		t.Errorf("%d threads stay", len(f.threads))
	}
}

func BenchmarkAdd(b *testing.B) {
	p := newProgram()
	p.run(strings.Repeat("ABC", 100))
	steps := make([]ledger.Step, 3)
	for i := range steps {
		steps[i] = ledger.Step{PID: 7, TID: 8, Op: opSync, Kind: uint32(i), Ops: make([]ledger.OpTime, 5), Waits: make([]ledger.Wait, 3)}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range steps {
			steps[i].From, steps[i].To = p.now, p.now+1e6
			p.now += 1e6
		}
		p.f.Add(steps)
	}
}
