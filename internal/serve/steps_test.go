package serve

import (
	"slices"
	"testing"
	"time"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// engineSteps makes steps of 10 ms of a thread, each after 5 ms without work. A graph of 0 has
// launches without one.
func engineSteps(pid uint32, graphs ...uint64) []ledger.Step {
	var list []s
	for _, g := range graphs {
		list = append(list, s{5 * ms, 10 * ms, g != 0})
	}
	out := steps(pid, list...)
	for i, g := range graphs {
		out[i].Graph, out[i].Launches = g, 3
	}
	return out
}

// sumsOf returns the sums of a server's engine over a tick, with requests that ended in it.
func sumsOf(t *testing.T, change func(*tick.Tick), list []ledger.Step, requests ...tick.Request) []tick.EngineSteps {
	t.Helper()
	var x Splitter
	first := served()
	change(first)
	x.Tick(first)
	if len(first.EngineSteps) > 0 {
		t.Errorf("before the first step: %+v", first.EngineSteps)
	}
	x.Batch(list)
	now := served(requests...)
	change(now)
	x.Tick(now)
	for i := range now.EngineSteps {
		y := &now.EngineSteps[i]
		worked := time.Duration(y.Count) * 10 * time.Millisecond
		if sum := y.GPU + y.CPU + y.Runnable + y.Blocked + y.Unknown; sum != worked || y.Dur.Count() != y.Count || y.Idle != worked/2 {
			t.Errorf("%s, graph %d: the parts add up to %s of %s, with %d durations and %s without work", y.Kind, y.Graph, sum, worked, y.Dur.Count(), y.Idle)
		}
	}
	later := served()
	change(later)
	if x.Tick(later); len(later.EngineSteps) > 0 {
		t.Errorf("a later tick has the same steps: %+v", later.EngineSteps)
	}
	return now.EngineSteps
}

// The steps of an engine are summed up by kind and graph, with the requests that had tokens computed
// in them.
func TestEngineSteps(t *testing.T) {
	type row struct {
		pid           uint32
		kind          tick.EngineStep
		graph         uint64
		count, served uint64
	}
	none := func(*tick.Tick) {}
	thinned := shedding("launches-counted", 0)
	ranks := func(t *tick.Tick) {
		t.Processes[0].Cmdline += " -dp 2"
		t.Processes = append(t.Processes, tick.Process{PID: 12, PPID: 10, Where: tick.Where{Cmdline: "VLLM::EngineCore"}})
	}
	// The engine computes a prompt until 15 ms, then tokens until 30, 45 and 60 ms. The first request
	// is in the last three steps, the second in the last one.
	engine := engineSteps(11, 0, 7, 8, 8)
	both := []tick.Request{request(0, 0, 16*ms, 61*ms), request(0, 0, 46*ms, 61*ms)}
	copies := engineSteps(10, 0, 0, 0, 0, 0)
	for i := range copies {
		copies[i].Launches = 0
	}
	capture, idle := engineSteps(11, 7, 0, 0), engineSteps(11, 7, 0)
	capture[2].Marks, idle[1].Launches = ledger.MarkCapture|ledger.MarkGraph, 0
	for name, tt := range map[string]struct {
		change   func(*tick.Tick)
		steps    []ledger.Step
		requests []tick.Request
		want     []row
	}{
		"by graph": {none, engine, both, []row{{11, tick.EngineTokens, 7, 1, 1}, {11, tick.EngineTokens, 8, 2, 3}, {11, tick.EnginePrompts, 0, 1, 0}}},
		"of the thread with the most": {none, append(engineSteps(10, 5), engine...), nil,
			[]row{{11, tick.EngineTokens, 7, 1, 0}, {11, tick.EngineTokens, 8, 2, 0}, {11, tick.EnginePrompts, 0, 1, 0}}},
		"of the thread that launches": {none, append(copies, engine...), nil,
			[]row{{11, tick.EngineTokens, 7, 1, 0}, {11, tick.EngineTokens, 8, 2, 0}, {11, tick.EnginePrompts, 0, 1, 0}}},
		"without graphs":            {none, engineSteps(11, 0, 0, 0), both[:1], []row{{11, tick.EngineEither, 0, 3, 0}}},
		"launches were shed":        {thinned, engine, both, []row{{11, tick.EngineEither, 0, 4, 0}}},
		"records of them were shed": {thinned, known(slices.Clone(engine)), nil, []row{{11, tick.EngineTokens, 7, 1, 0}, {11, tick.EngineTokens, 8, 2, 0}, {11, tick.EnginePrompts, 0, 1, 0}}},
		"with a capture":            {none, capture, nil, []row{{11, tick.EngineTokens, 7, 1, 0}, {11, tick.EnginePrompts, 0, 1, 0}, {11, tick.EngineCapture, 0, 1, 0}}},
		"some launch nothing":       {none, idle, nil, []row{{11, tick.EngineTokens, 7, 1, 0}}},
		"engines of data parallel": {ranks, append(engineSteps(12, 5, 5), engine[1:2]...), both,
			[]row{{11, tick.EngineTokens, 7, 1, 0}, {12, tick.EngineTokens, 5, 2, 0}}},
		"of a process that is no server's": {none, engineSteps(99, 7), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := sumsOf(t, tt.change, tt.steps, tt.requests...)
			if len(got) != len(tt.want) {
				t.Fatalf("%d rows, want %d: %+v", len(got), len(tt.want), got)
			}
			for i, x := range got {
				if r := (row{x.PID, x.Kind, x.Graph, x.Count, x.Served}); r != tt.want[i] || x.TID != x.PID {
					t.Errorf("got %+v, want %+v", r, tt.want[i])
				}
			}
		})
	}
}

// Beyond the limit, steps have no graph.
func TestManyGraphs(t *testing.T) {
	var graphs []uint64
	for i := range 2 * mostGraphs {
		graphs = append(graphs, uint64(i+1))
	}
	got, all := sumsOf(t, func(*tick.Tick) {}, engineSteps(11, graphs...)), uint64(0)
	for i := range got {
		all += got[i].Count
	}
	if len(got) != mostGraphs+1 || all != 2*mostGraphs || got[0].Graph != 0 || got[0].Count != mostGraphs {
		t.Errorf("%d rows with %d steps, the first is of graph %d with %d", len(got), all, got[0].Graph, got[0].Count)
	}
}

// The ledger has the first graph that a step launched.
func TestGraphOfAStep(t *testing.T) {
	launch, _ := events.OpByName("cudaGraphLaunch")
	sync, _ := events.OpByName("cudaStreamSynchronize")
	call := func(op events.Op, at int64, exec uint64) events.Call {
		c := events.Call{Op: op, Start: began + at*ms, Duration: ms, OnCPU: ms, PID: 11, TID: 11, Weight: 1}
		c.Args[0] = exec
		return c
	}
	l := ledger.New(0)
	got := l.Batch(nil, []events.Call{call(sync, 0, 0), call(launch, 2, 7), call(launch, 4, 8), call(sync, 6, 0), call(launch, 8, 9), call(sync, 10, 0), call(sync, 12, 0)})
	var graphs []uint64
	for i := range got {
		graphs = append(graphs, got[i].Graph)
	}
	if want := []uint64{7, 9, 0}; len(graphs) != 3 || graphs[0] != want[0] || graphs[1] != want[1] || graphs[2] != want[2] {
		t.Errorf("the graphs are %v, want %v", graphs, want)
	}
}
