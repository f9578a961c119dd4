package serve

import (
	"net/netip"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

const ms = int64(time.Millisecond)

// began is when the first step begins.
const began = 1000 * ms

// steps makes an engine's steps, one after the other. Each waits for work, then computes prompts
// (without a graph) or tokens: a fifth on a CPU, a tenth waiting for one, the rest for the GPU.
func steps(pid uint32, list ...struct {
	waits, works int64
	graph        bool
}) (out []ledger.Step) {
	at := began
	for _, s := range list {
		x := ledger.Step{PID: pid, TID: pid, From: at, To: at + s.waits + s.works, Launches: 1}
		x.Parts.Blocked[events.ReasonSocket] = s.waits
		x.Parts.GapCPU, x.Parts.Runnable = s.works/5, s.works/10
		x.Parts.GPUWait = s.works - x.Parts.GapCPU - x.Parts.Runnable
		if s.graph {
			x.Marks = ledger.MarkGraph
		}
		out = append(out, x)
		at = x.To
	}
	return out
}

type s = struct {
	waits, works int64
	graph        bool
}

// served is a server and its engine, with requests that are answered at times since began.
func served(requests ...tick.Request) *tick.Tick {
	return &tick.Tick{Requests: requests, Processes: []tick.Process{
		{PID: 10, Where: tick.Where{Cmdline: "vllm serve m"}}, {PID: 11, PPID: 10, Where: tick.Where{Cmdline: "VLLM::EngineCore"}}}}
}

func request(arrived, whole, first, last int64) tick.Request {
	return tick.Request{PID: 10, Peer: netip.MustParseAddrPort("10.0.0.1:1"), Arrived: began + arrived, Read: time.Duration(whole), Whole: time.Duration(whole),
		Head: time.Duration(first), First: time.Duration(first), Last: time.Duration(last), Events: 3, Post: true}
}

func atOnce(x tick.Request) tick.Request {
	x.Events = 1
	return x
}

// The time to the first byte is that of the steps in it: of other requests' prompts, of tokens, of
// the request's own prompt, and the waits of the engine before and between them.
func TestSplit(t *testing.T) {
	engine := []s{
		{0, 10 * ms, true},        // 0 to 10 ms
		{0, 20 * ms, false},       // to 30: another prompt
		{0, 10 * ms, true},        // to 40
		{5 * ms, 15 * ms, false},  // to 60: waits to 45, then the prompt
		{0, 10 * ms, true},        // to 70
		{20 * ms, 10 * ms, true},  // to 100: waits to 90
		{50 * ms, 10 * ms, false}, // to 160
	}
	d := func(n int64) time.Duration { return time.Duration(n * ms) }
	for name, tt := range map[string]struct {
		request        tick.Request
		toFirst, after tick.RequestTime // without the last five parts
		tokens         uint32           // steps after the first byte
	}{
		"arrives in a prompt": {request(15*ms, 5*ms, 47*ms, 87*ms),
			tick.RequestTime{Prompts: d(10), Tokens: d(10), Idle: d(5), Own: d(15), Deliver: d(2)},
			tick.RequestTime{Tokens: d(18), Idle: d(20), Deliver: d(2)}, 2},
		"arrives while the engine waits": {request(105*ms, 0, 57*ms, 57*ms),
			tick.RequestTime{Idle: d(45), Own: d(10), Deliver: d(2)}, tick.RequestTime{}, 0},
		"is answered at once": {atOnce(request(42*ms, 0, 60*ms, 60*ms)),
			tick.RequestTime{Idle: d(23), Own: d(15), Tokens: d(20), Deliver: d(2)}, tick.RequestTime{}, 2},
		"has no step for its prompt": {request(62*ms, 0, 10*ms, 10*ms),
			tick.RequestTime{Tokens: d(8), Deliver: d(2)}, tick.RequestTime{}, 0},
		"another's prompt stalls it": {request(0, 0, 10*ms, 40*ms),
			tick.RequestTime{Tokens: d(10)}, tick.RequestTime{Prompts: d(20), Tokens: d(10)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var x Splitter
			x.Tick(served()) // makes the processes known
			x.Batch(steps(11, engine...))
			now := served(tt.request)
			x.Tick(now)
			got := &now.Requests[0]
			if !got.Split || got.EnginePID != 11 || got.EngineTID != 11 || got.TokenSteps != tt.tokens {
				t.Fatalf("it is not split by the engine: %v, by %d with %d steps", got.Split, got.EngineTID, got.TokenSteps)
			}
			for _, p := range []struct {
				name      string
				got, want tick.RequestTime
				length    time.Duration
			}{{"to the first byte", got.ToFirst, tt.toFirst, got.First - got.Whole}, {"after it", got.After, tt.after, got.Last - got.First}} {
				if sum := p.got.Idle + p.got.Prompts + p.got.Own + p.got.Tokens + p.got.Deliver; sum != p.length {
					t.Errorf("%s: the parts add up to %s of %s", p.name, sum, p.length)
				}
				steps := p.got.Prompts + p.got.Own + p.got.Tokens
				if sum := p.got.GPU + p.got.CPU + p.got.Runnable + p.got.Blocked + p.got.Unknown; sum != steps {
					t.Errorf("%s: the parts of the steps add up to %s of %s", p.name, sum, steps)
				}
				if off := p.got.CPU - steps/5; off < -2 || off > 2 {
					t.Errorf("%s: %s on a CPU, want %s", p.name, p.got.CPU, steps/5)
				}
				p.got.GPU, p.got.CPU, p.got.Runnable = 0, 0, 0
				if p.got != p.want {
					t.Errorf("%s: got %+v, want %+v", p.name, p.got, p.want)
				}
			}
		})
	}
}

// A step that launches nothing, such as a copy, counts with the step before it, and not as a prompt.
func TestStepsWithoutLaunches(t *testing.T) {
	var x Splitter
	x.Tick(served())
	list := steps(11, s{0, 10 * ms, true}, s{0, 500 * ms, false}, s{0, ms, false}, s{0, 10 * ms, true}, s{0, ms, false})
	list[2].Launches, list[4].Launches = 0, 0
	x.Batch(list)
	now := served(request(10*ms, 0, 502*ms, 512*ms))
	x.Tick(now)
	got := &now.Requests[0]
	if p := &got.ToFirst; p.Own != time.Duration(500*ms) || p.Prompts != 0 || p.Deliver != time.Duration(2*ms) {
		t.Errorf("to the first byte: %+v", p)
	}
	if p := &got.After; p.Prompts != 0 || p.Tokens != time.Duration(10*ms) || got.TokenSteps != 1 {
		t.Errorf("after it: %+v, %d steps for tokens", p, got.TokenSteps)
	}
}

// An engine without a graph computes prompts and tokens alike.
func TestNoGraphs(t *testing.T) {
	var x Splitter
	x.Tick(served(request(0, 0, 0, 0)))
	x.Batch(steps(11, s{0, 10 * ms, false}, s{5 * ms, 20 * ms, false}, s{0, 10 * ms, false}))
	now := served(request(0, 0, 36*ms, 45*ms))
	x.Tick(now)
	p, after := now.Requests[0].ToFirst, now.Requests[0].After
	if p.Steps != time.Duration(30*ms) || p.Idle != time.Duration(5*ms) || p.Deliver != time.Duration(ms) || p.Own+p.Prompts+p.Tokens != 0 || p.GPU+p.CPU+p.Runnable != p.Steps || after.Steps != time.Duration(9*ms) {
		t.Errorf("%+v, %+v", p, after)
	}
}

// shedding returns a change of a tick at a time since began, in which a level is active.
func shedding(level string, at int64) func(*tick.Tick) {
	return func(t *tick.Tick) { t.Time, t.Overhead.Shed = time.Unix(0, began+at), []string{level} }
}

// known returns steps that say whether they launched graphs.
func known(steps []ledger.Step) []ledger.Step {
	for i := range steps {
		steps[i].GraphsKnown = true
	}
	return steps
}

// If launches have no record, requests are split if the engine's steps say which of them launched
// graphs. Without probes for launches they do not know.
func TestSplitWithoutRecordsOfLaunches(t *testing.T) {
	for name, tt := range map[string]struct {
		level string
		from  int // first step that is known
		split bool
	}{
		"known":                   {"launches-counted", 0, true},
		"one step is not":         {"records-thin", 1, false},
		"launches have no probes": {"hot-off", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var x Splitter
			x.Tick(served(request(0, 0, 0, 0)))
			list := steps(11, s{0, 10 * ms, true}, s{0, 20 * ms, false})
			known(list[tt.from:])
			x.Batch(list)
			now := served(request(0, 0, 30*ms, 30*ms))
			shedding(tt.level, 30*ms)(now)
			x.Tick(now)
			if got := &now.Requests[0]; got.Split != tt.split || tt.split && got.ToFirst.Own != time.Duration(20*ms) {
				t.Errorf("split: %v, want %v: %+v", got.Split, tt.split, got.ToFirst)
			}
		})
	}
}

// What is not known is not split.
func TestNotSplit(t *testing.T) {
	engine := []s{{0, 10 * ms, true}, {0, 20 * ms, false}}
	for name, tt := range map[string]struct {
		change  func(*tick.Tick)
		request tick.Request
	}{
		"launches may have no record":           {shedding("launches-counted", 30*ms), request(0, 0, 30*ms, 30*ms)},
		"a request before the first known step": {func(*tick.Tick) {}, request(-5*ms, 0, 30*ms, 30*ms)},
		"a request after the last step":         {func(*tick.Tick) {}, request(31*ms, 0, 30*ms, 30*ms)},
		"a request without a response":          {func(*tick.Tick) {}, tick.Request{PID: 10, Arrived: began, First: -1, Last: -1, Head: -1}},
		"a server whose engine is not known":    {func(t *tick.Tick) { t.Processes = t.Processes[:1] }, request(0, 0, 30*ms, 30*ms)},
		"a server with several models": {func(t *tick.Tick) {
			t.Processes = []tick.Process{{PID: 10, Where: tick.Where{Cmdline: "ollama serve"}},
				{PID: 11, PPID: 10, Where: tick.Where{Cmdline: "ollama runner --model a"}}, {PID: 12, PPID: 10, Where: tick.Where{Cmdline: "ollama runner --model b"}}}
		}, request(0, 0, 30*ms, 30*ms)},
		"a request before the end of one of two models": {func(t *tick.Tick) {
			t.Processes = []tick.Process{{PID: 10, Where: tick.Where{Cmdline: "ollama serve"}},
				{PID: 11, PPID: 10, Where: tick.Where{Cmdline: "ollama runner --model a"}},
				{PID: 12, PPID: 10, Where: tick.Where{Cmdline: "ollama runner --model b"}, Ended: time.Unix(0, began+ms)}}
		}, request(0, 0, 30*ms, 30*ms)},
		"a request answered after the end of the engine": {func(t *tick.Tick) { t.Processes[1].Ended = time.Unix(0, began+30*ms) }, request(0, 0, 30*ms, 31*ms)},
		"a server with more than one such engine":        {func(t *tick.Tick) { t.Processes[0].Cmdline += " -dp 2" }, request(0, 0, 30*ms, 30*ms)},
	} {
		t.Run(name, func(t *testing.T) {
			var x Splitter
			first := served(request(0, 0, 0, 0))
			tt.change(first)
			x.Tick(first)
			x.Batch(steps(11, engine...))
			x.Batch(steps(12, engine...))
			now := served(tt.request)
			tt.change(now)
			x.Tick(now)
			if got := &now.Requests[0]; got.Split || got.EngineTID != 0 || got.ToFirst != (tick.RequestTime{}) {
				t.Errorf("it is split: %+v", got.ToFirst)
			}
		})
	}
}

// The new engine of a server is found after a request that the old engine's steps do not cover, and after
// the end of the old engine's process. It computes the requests that arrive from then on, and the old one
// those that ended before.
func TestEngineReplaced(t *testing.T) {
	server := tick.Process{PID: 10, Where: tick.Where{Cmdline: "ollama serve"}}
	runner := func(pid uint32, model string) tick.Process {
		return tick.Process{PID: pid, PPID: 10, Where: tick.Where{Cmdline: "ollama runner --model " + model}}
	}
	over := runner(11, "a")
	over.Ended = time.Unix(0, began+35*ms)
	for name, tt := range map[string]struct {
		before, after []tick.Process
		uncovered     []tick.Request
		request       tick.Request
		by            uint32
	}{
		"after a request that is not covered": {[]tick.Process{server, runner(11, "a")}, []tick.Process{server, runner(12, "b")}, []tick.Request{request(31*ms, 0, 30*ms, 30*ms)}, request(40*ms, 0, 30*ms, 30*ms), 12},
		"after the end of the old one":        {[]tick.Process{server, runner(11, "a")}, []tick.Process{server, over, runner(12, "b")}, nil, request(40*ms, 0, 30*ms, 30*ms), 12},
		"reported after that end":             {[]tick.Process{server, runner(11, "a")}, []tick.Process{server, over, runner(12, "b")}, nil, request(0, 0, 30*ms, 30*ms), 11},
		"both ran for a while":                {[]tick.Process{server, runner(11, "a"), runner(12, "b")}, []tick.Process{server, over, runner(12, "b")}, nil, request(40*ms, 0, 30*ms, 30*ms), 12},
	} {
		t.Run(name, func(t *testing.T) {
			var x Splitter
			x.Tick(&tick.Tick{Processes: tt.before})
			x.Batch(steps(11, s{0, 10 * ms, true}, s{0, 10 * ms, true}, s{0, 10 * ms, false}))
			x.Tick(&tick.Tick{Processes: tt.before, Requests: tt.uncovered})
			x.Tick(&tick.Tick{Processes: tt.after})
			x.Batch(steps(12, s{0, 40 * ms, true}, s{0, 30 * ms, false})[1:])
			now := &tick.Tick{Processes: tt.after, Requests: []tick.Request{tt.request}}
			x.Tick(now)
			if got := &now.Requests[0]; !got.Split || got.EnginePID != tt.by {
				t.Errorf("split: %v, by %d, want %d", got.Split, got.EnginePID, tt.by)
			}
		})
	}
}

// Of a server that is no known engine, each thread that launches may compute requests.
func TestThreadsOfAServer(t *testing.T) {
	const n = 8
	list := make([]s, n)
	for i := range list {
		list[i] = s{0, 5 * ms, false}
	}
	for name, tt := range map[string]struct {
		other  int // steps of the second thread
		change func(*ledger.Step)
		split  bool
	}{
		"both launch":               {n, func(*ledger.Step) {}, false},
		"one launches little":       {1, func(*ledger.Step) {}, true},
		"one launches nothing":      {n, func(x *ledger.Step) { x.Launches = 0 }, true},
		"one has ended a while ago": {n, func(x *ledger.Step) { x.From, x.To = x.From-2*ended, x.To-2*ended }, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := func(requests ...tick.Request) *tick.Tick {
				return &tick.Tick{Requests: requests, Processes: []tick.Process{{PID: 10, Where: tick.Where{Cmdline: "python3 app.py"}}}}
			}
			var x Splitter
			x.Tick(server(request(0, 0, 0, 0)))
			all := append(steps(10, list...), steps(10, list[:tt.other]...)...)
			for i := range all {
				if i >= n {
					all[i].TID = 20
					tt.change(&all[i])
				}
			}
			x.Batch(all)
			now := server(request(ms, 0, 20*ms, 30*ms))
			x.Tick(now)
			if got := &now.Requests[0]; got.Split != tt.split || tt.split && got.EngineTID != 10 {
				t.Errorf("split: %v, by %d", got.Split, got.EngineTID)
			}
		})
	}
}

// Threads that have ended make room for others.
func TestManyThreads(t *testing.T) {
	var x Splitter
	x.Tick(served(request(0, 0, 0, 0)))
	for i := range uint32(2 * mostThreads) {
		one := steps(11, s{0, ms, true})
		one[0].TID = i
		if i >= mostThreads {
			one[0].To += 2 * ended
		}
		x.Batch(one)
	}
	if l := x.threads[threadKey{11, 2*mostThreads - 1}]; len(x.threads) != mostThreads || l == nil {
		t.Errorf("%d threads are kept, the last one: %v", len(x.threads), l)
	}
}

// Old steps are forgotten, and the last ones kept.
func TestManySteps(t *testing.T) {
	var x Splitter
	x.Tick(served(request(0, 0, 0, 0)))
	many := make([]s, 3*mostSteps)
	for i := range many {
		many[i] = s{0, ms, true}
	}
	all := steps(11, many...)
	x.Batch(all)
	l := x.threads[threadKey{11, 11}].steps
	if len(l) > mostSteps || len(l) < mostSteps/2 || l[len(l)-1].to != all[len(all)-1].To {
		t.Errorf("%d steps are kept, up to %d", len(l), l[len(l)-1].to)
	}
}

// The time in which a scheduler with a process of its own works is not a wait for requests.
func TestSchedulerProcess(t *testing.T) {
	processes := append(served().Processes, tick.Process{PID: 12, PPID: 11, Where: tick.Where{Cmdline: "VLLM::Worker_TP0"}})
	engine := steps(12, s{0, 10 * ms, false}, s{8 * ms, 10 * ms, true})
	for name, tt := range map[string]struct {
		wait ledger.Wait
		want tick.RequestTime
	}{
		"the scheduler, on a CPU and waiting for one": {
			ledger.Wait{Who: events.Thread{PID: 11, TID: 11}, Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(5 * ms), Runnable: uint64(ms), Blocked: uint64(2 * ms)}}},
			tick.RequestTime{Idle: 2e6, Tokens: 16e6, GPU: 7e6, CPU: 7e6, Runnable: 2e6},
		},
		"the server, for which the scheduler waited": {
			ledger.Wait{Who: events.Thread{PID: 11, TID: 11}, Waker: tick.WakerShare{Times: tick.Times{OnCPU: uint64(8 * ms)}, Root: events.Thread{PID: 10, TID: 10}}},
			tick.RequestTime{Idle: 8e6, Tokens: 10e6, GPU: 7e6, CPU: 2e6, Runnable: 1e6},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.wait.NS, tt.wait.State, tt.wait.Reason = 8*ms, events.WaitBlocked, events.ReasonSocket
			engine[1].Waits = []ledger.Wait{tt.wait}
			var x Splitter
			known := served()
			known.Processes = processes
			x.Tick(known)
			x.Batch(engine)
			now := served(request(0, 0, 10*ms, 28*ms))
			now.Processes = processes
			x.Tick(now)
			if got := now.Requests[0]; got.EngineTID != 12 || got.After != tt.want {
				t.Errorf("engine %d: got %+v, want %+v", got.EngineTID, got.After, tt.want)
			}
		})
	}
}
