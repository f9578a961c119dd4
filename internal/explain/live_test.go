package explain

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// liveTick is the second of a session in which some waits were slow.
func liveTick() *tick.Tick {
	m := train(4821, 100)
	m.train(4822, 50)
	m.call(events.Call{PID: 4821, Op: graph, OnCPU: 30_000})
	m.call(events.Call{PID: 4821, Op: longName, OnCPU: 30_000})
	t := &tick.Tick{
		Time: start.Add(42 * time.Second), Started: start, Seq: 42, Window: time.Second, Records: 6000, Ops: m.list(),
		Processes: []tick.Process{process(4821), process(4822), process(4823)},
		Libraries: []tick.Library{
			{Path: "/usr/local/cuda/lib64/libcudart.so.12", Lib: events.LibCudart, BuildID: "ab12", Probes: 62},
			{Path: "/usr/lib/x86_64-linux-gnu/libcuda.so.1", Lib: events.LibCuda, Probes: 70},
		},
		Drops: []tick.Drop{{Reason: "ring-full"}, {Reason: "thinned"}},
		Self:  tick.Self{CPU: 378 * time.Millisecond, RSS: 21 << 20},
		Host: tick.Host{CPU: 0.471, CPUs: 16, MemTotal: 64 << 30, MemAvail: 17 << 30, SwapTotal: 8 << 30, SwapUsed: 8 << 30,
			Load: [3]float64{3.2, 2.1, 1}},
	}
	t.Processes[2].Ended = start.Add(10 * time.Second)
	for i := range t.Ops {
		o := &t.Ops[i]
		o.Last = tick.Counts{Calls: o.Sum.Calls / 10, Done: o.Sum.Done / 10, Total: o.Sum.Total / 10}
		o.DurLast = &stats.Sketch{}
		if o.Op == streamSyn {
			o.DurLast.Add(60*ms, 1)
		}
	}
	return t
}

func lossyTick() *tick.Tick {
	t := liveTick()
	t.Drops = []tick.Drop{{Reason: "ring-full", Count: 600}, {Reason: "thinned", Count: 1234}}
	t.Reports = []tick.Report{{Kind: "entry-only", Object: "x", Why: "y"}, {Kind: "missing-symbol"}}
	for i := range t.Ops {
		t.Ops[i].Thinned = t.Ops[i].Op == launch
	}
	return t
}

var liveTables = []struct {
	name string
	t    *tick.Tick
	o    Options
}{
	{"full", liveTick(), Options{Location: cet}},
	{"lossy", lossyTick(), Options{Location: cet}},
	{"wide", liveTick(), Options{Width: 130}},
	{"low", liveTick(), Options{Height: 18}},
	{"color", lossyTick(), Options{Color: true}},
	{"waiting", &tick.Tick{Time: start.Add(time.Second), Started: start, Window: time.Second}, Options{}},
	{"ended", &tick.Tick{Time: start.Add(time.Second), Started: start, Window: time.Second, Final: true,
		Processes: []tick.Process{{PID: 7, Comm: "train", Ended: start}}}, Options{}},
}

func TestLive(t *testing.T) {
	for _, tt := range liveTables {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Golden(t, "live-"+tt.name+".txt", Live(tt.t, tt.o))
		})
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9]*m")

// The table has at most the width and the height that it may have, whatever
// they are.
func TestLiveFits(t *testing.T) {
	for _, tt := range liveTables {
		for _, width := range []int{1, 10, 40, 79, 80, 81, 100, 300} {
			for _, height := range []int{1, 2, 5, 10, 15, 20, 24, 100} {
				got := Live(tt.t, Options{Width: width, Height: height, Color: true})
				plain := sgr.ReplaceAllString(got, "")
				t.Run(fmt.Sprintf("%s %dx%d", tt.name, width, height), func(t *testing.T) {
					narrow(t, plain, width)
				})
				if n := strings.Count(got, "\n"); n > height {
					t.Errorf("%s: %d lines, at most %d fit", tt.name, n, height)
				}
				if strings.Count(got, "\x1b") != 2*strings.Count(got, reset) {
					t.Errorf("%s: a colour does not end in %q", tt.name, got)
				}
			}
		}
	}
}

// Colours say nothing that the text does not.
func TestLiveColorIsOnlyColor(t *testing.T) {
	for _, tt := range liveTables {
		o := tt.o
		o.Color = false
		want := Live(tt.t, o)
		if strings.Contains(want, "\x1b") {
			t.Errorf("%s: colour where none was asked for", tt.name)
		}
		o.Color = true
		if got := sgr.ReplaceAllString(Live(tt.t, o), ""); got != want {
			t.Errorf("%s: without colours %q, want %q", tt.name, got, want)
		}
	}
}

// What is left out is counted, and what took the most time stays.
func TestLiveLeavesOut(t *testing.T) {
	got := Live(liveTick(), Options{Height: 17})
	rows, more := 0, 0
	for l := range strings.Lines(got) {
		var n int
		if _, err := fmt.Sscanf(l, "  ... %d more", &n); err == nil {
			more += n
		}
		if strings.HasPrefix(l, "  cu") {
			rows++
		}
	}
	if rows+more != 9 || more == 0 {
		t.Errorf("%d rows and %d left out, want 9 in all:\n%s", rows, more, got)
	}
	if !strings.Contains(got, "  cudaStreamSynchronize") || !strings.Contains(got, "  cuStreamSynchronize") {
		t.Errorf("the longest is gone:\n%s", got)
	}
}

// A tick is shared by all sinks.
func TestLiveLeavesTheTickAlone(t *testing.T) {
	a := liveTick()
	before, err := TickJSON(a)
	if err != nil {
		t.Fatal(err)
	}
	Live(a, Options{})
	after, err := TickJSON(a)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("drawing changed the tick")
	}
}

func TestFlags(t *testing.T) {
	sketch := func(ns int64) *stats.Sketch {
		s := &stats.Sketch{}
		s.Add(ns, 1)
		return s
	}
	for _, tt := range []struct {
		name     string
		all, now *stats.Sketch
		failed   uint64
		want     string
	}{
		{"as ever", sketch(10 * ms), sketch(11 * ms), 0, ""},
		{"slow", sketch(10 * ms), sketch(31 * ms), 0, "  slow p99"},
		{"short", sketch(1000), sketch(900_000), 0, ""},
		{"idle", sketch(10 * ms), &stats.Sketch{}, 0, ""},
		{"failed", sketch(10 * ms), sketch(31 * ms), 1200, "  slow p99  1,200 failed"},
	} {
		o := &tick.Op{Dur: tt.all, DurLast: tt.now, Sum: tick.Counts{Errors: tt.failed}}
		q := quantilesOf(o.Dur, nil, false)
		got := ""
		for _, f := range flags(o, &q) {
			got += f.text
		}
		if got != tt.want {
			t.Errorf("%s: flags = %q, want %q", tt.name, got, tt.want)
		}
	}
}
