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

// liveTick is a second of a session with some slow waits.
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
		HostProbes: 31,
		Drops:      []tick.Drop{{Reason: "ring-full"}, {Reason: "thinned"}},
		Self:       tick.Self{CPU: 378 * time.Millisecond, RSS: 21 << 20},
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
	t.Overhead = tick.Overhead{Budget: 0.02, Share: 0.0431, Probes: 0.03, Stacks: 0.001, Agent: 0.012, Tracepoints: 0.0001, Shed: []string{"stacks-rare", "records-thin"}}
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
	{"well", ledgerTick(well(4821), well(4822)), Options{Location: cet}},
	{"hog", hogTick(), Options{Location: cet}},
	{"hog-low", hogTick(), Options{Location: cet, Height: 24}},
	{"hog-over", func() *tick.Tick {
		t := hogTick()
		t.Time = t.Time.Add(time.Minute)
		return t
	}(), Options{Location: cet}},
	{"gpu", gpuTick(), Options{Location: cet}},
	{"gpu-low", gpuTick(), Options{Location: cet, Height: 20}},
	{"ranks", ranksTick(), Options{Location: cet}},
	{"state", stateTick(), Options{Location: cet}},
	{"host", hostTick(), Options{Width: 110, Location: cet}},
	{"host-low", hostTick(), Options{Height: 24, Location: cet}},
	{"served", liveTick(), Options{Location: cet}},
	{"served-wide", liveTick(), Options{Location: cet, Width: 110}},
	{"many", func() *tick.Tick {
		var list []tick.Breakdown
		for pid := range uint32(9) {
			list = append(list, well(4821+pid))
		}
		return ledgerTick(list...)
	}(), Options{}},
}

// ledgerTick is liveTick with the accounts of processes.
func ledgerTick(list ...tick.Breakdown) *tick.Tick {
	t := liveTick()
	t.Breakdowns = list
	return t
}

// hogTick is a second in which others take the CPU and another process's quota is used up.
func hogTick() *tick.Tick {
	b := well(4822)
	b.GPUWait -= second
	b.Throttled = second
	t := ledgerTick(b, hogged(4821))
	c := takenChain(4821)
	c.To = t.Time.Add(-time.Second)
	t.Chains = []tick.Chain{c, chainOfRule("call-slow", malloc)}
	return t
}

// hogBatch has the events of hogTick's second.
func hogBatch() *tick.Batch {
	b := &tick.Batch{Procs: []tick.ProcEvent{
		{Time: start.UnixNano(), Kind: tick.ProcExeced, PID: 4821, Comm: "train.py"},
		{Time: start.Add(time.Second).UnixNano(), Kind: tick.ProcForked, PID: 4821, Peer: 4823, Comm: "python3"},
		{Time: start.Add(2 * time.Second).UnixNano(), Kind: tick.ProcExeced, PID: 4823, Comm: "loader"},
		{Time: start.Add(3 * time.Second).UnixNano(), Kind: tick.ProcExited, PID: 4823, Comm: "loader"},
	}}
	for i := range 23 {
		w := events.Wait{State: events.WaitRunnable, Op: streamSyn, Duration: 2 * ms, Taken: ms, Who: thread("stress-ng", 8821, 8821)}
		if i == 0 { // two had the CPU in turns
			b.Waits = append(b.Waits, w)
			w.Flags, w.Who = events.WaitPrevious, thread("stress-ng", 8822, 8822)
		}
		b.Waits = append(b.Waits, w)
	}
	b.Waits = append(b.Waits, events.Wait{State: events.WaitBlocked, Op: malloc, Duration: 50 * ms},
		events.Wait{State: events.WaitRunnable, Duration: 50 * ms}, events.Wait{State: events.WaitRunnable, Op: launch, Duration: 30_000})
	return b
}

// seenBy returns what a table's case has seen.
func seenBy(name string) *Seen {
	s := &Seen{}
	switch {
	case strings.HasPrefix(name, "hog"):
		s.Add(hogBatch())
	case strings.HasPrefix(name, "gpu"):
		s.Tick(gpuTick())
	case strings.HasPrefix(name, "host"):
		s.Add(&tick.Batch{Procs: []tick.ProcEvent{
			{Time: start.UnixNano(), Kind: tick.ProcOOM, PID: 5000, Comm: "loader"},
			{Time: start.Add(time.Second).UnixNano(), Kind: tick.ProcKilled, PID: 4821, Peer: 711, Comm: "kubelet", Signal: 15},
			{Time: start.Add(2 * time.Second).UnixNano(), Kind: tick.ProcKilled, PID: 4822, Signal: 9},
		}})
		s.Tick(hostTick())
		s.Tick(hostTick())
	case strings.HasPrefix(name, "served"):
		s.Tick(servedAt(start.Add(32*time.Second), 8)) // 10 s ago
		s.Tick(servedAt(start.Add(33*time.Second), 42))
		s.Tick(servedAt(start.Add(42*time.Second), 42, tick.Request{PID: 1234567, Port: 5000, Head: -1, First: -1, Last: -1, Post: true}))
		s.Tick(servedAt(start.Add(42*time.Second), 9, tick.Request{PID: 9, Port: 5000}))
	default:
		return nil
	}
	return s
}

func TestLive(t *testing.T) {
	for _, tt := range liveTables {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Golden(t, "live-"+tt.name+".txt", Live(tt.t, seenBy(tt.name), tt.o))
		})
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9]*m")

// The table never exceeds its width and height, for any values of them.
func TestLiveFits(t *testing.T) {
	for _, tt := range liveTables {
		for _, width := range []int{1, 10, 40, 79, 80, 81, 100, 300} {
			for _, height := range []int{1, 2, 5, 10, 15, 20, 24, 100} {
				got := Live(tt.t, seenBy(tt.name), Options{Width: width, Height: height, Color: true})
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

// Colors carry no information that the text lacks.
func TestLiveColorIsOnlyColor(t *testing.T) {
	for _, tt := range liveTables {
		o := tt.o
		o.Color = false
		want := Live(tt.t, seenBy(tt.name), o)
		if strings.Contains(want, "\x1b") {
			t.Errorf("%s: colour where none was asked for", tt.name)
		}
		o.Color = true
		if got := sgr.ReplaceAllString(Live(tt.t, seenBy(tt.name), o), ""); got != want {
			t.Errorf("%s: without colours %q, want %q", tt.name, got, want)
		}
	}
}

// Rows left out are counted, and those with the most time stay.
func TestLiveLeavesOut(t *testing.T) {
	got := Live(liveTick(), nil, Options{Height: 17})
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

// A tick is shared by all sinks, so Live does not modify it.
func TestLiveLeavesTheTickAlone(t *testing.T) {
	a := liveTick()
	before, err := TickJSON(a)
	if err != nil {
		t.Fatal(err)
	}
	Live(a, nil, Options{})
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

// Waits are counted once for any number of CPU users. Waits outside calls, waits too short to
// matter and waits for other reasons are left out.
func TestSeen(t *testing.T) {
	s := seenBy("hog")
	if ops := s.correlated(); len(ops) != 1 || ops[0] != streamSyn {
		t.Fatalf("operations %v, want cudaStreamSynchronize", ops)
	}
	x := s.waits[streamSyn]
	if x.count != 23 || x.ns != 46*ms || x.top().PID != 8821 {
		t.Errorf("%d waits of %d ns, most by %d, want 23 of 46 ms, by 8821", x.count, x.ns, x.top().PID)
	}
	if s.forks != 1 || s.execs != 2 || s.exits != 1 || len(s.last) != lastLives || s.last[0].Kind != tick.ProcForked {
		t.Errorf("lives: %d %d %d, last %+v", s.forks, s.execs, s.exits, s.last)
	}
	// It is bounded for any input.
	for i := range 10000 {
		s.Add(&tick.Batch{Waits: []events.Wait{{State: events.WaitRunnable, Op: events.Op(i + 1), Duration: ms, Taken: 1, Who: thread("x", uint32(i+1), 1)},
			{State: events.WaitRunnable, Op: streamSyn, Duration: ms, Taken: 1, Who: thread("x", uint32(i+1), 1)}}})
	}
	if len(s.waits) > maxSeenOps || len(s.waits[streamSyn].by) > maxCulprits {
		t.Errorf("%d operations, %d culprits are kept", len(s.waits), len(s.waits[streamSyn].by))
	}
}
