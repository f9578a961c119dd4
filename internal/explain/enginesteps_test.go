package explain

import (
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// engineStepsOf sums up n steps of some milliseconds, of which nine tenths wait for the GPU.
func engineStepsOf(kind tick.EngineStep, graph, n, served uint64, each time.Duration) tick.EngineSteps {
	x := tick.EngineSteps{PID: 7, TID: 8, Kind: kind, Graph: graph, Count: n, Served: served, Idle: time.Duration(n) * each / 4}
	var took stats.Sketch
	for range n {
		took.Add(int64(each), 1)
	}
	x.Dur = took
	x.CPU = time.Duration(n) * each / 10
	x.GPU = time.Duration(n)*each - x.CPU
	return x
}

// The report has the steps of each engine over all ticks: tokens by the number of requests, in JSON by
// graph.
func TestEngineSteps(t *testing.T) {
	var e Engines
	ms := time.Millisecond
	for range 2 {
		e.Add(&tick.Tick{Processes: []tick.Process{{PID: 7, Comm: "VLLM::EngineCor"}}, EngineSteps: []tick.EngineSteps{
			engineStepsOf(tick.EngineTokens, 0x70, 1000, 5000, 2*ms), engineStepsOf(tick.EngineTokens, 0x38, 100, 100, ms), engineStepsOf(tick.EngineTokens, 0x10, 500, 2000, 3*ms),
			engineStepsOf(tick.EnginePrompts, 0, 30, 0, 40*ms)}})
	}
	e.Add(&tick.Tick{EngineSteps: []tick.EngineSteps{engineStepsOf(tick.EngineTokens, 0x10, 0, 2, 0), engineStepsOf(tick.EngineTokens, 0x99, 0, 4, 0)}}) // requests that end after their steps
	w := &writer{loc: time.UTC}
	w.engines(e.grouped())
	const want = `
Steps of the engine VLLM::EngineCor (7), which waited for work in 20.0 % of the
time:
                      steps requests     p50     p99   GPU   CPU no CPU blocked
  tokens                200      1.0 1.00 ms 1.00 ms  90 %  10 %    0 %     0 %
  tokens              3,000      4.7 2.01 ms 3.00 ms  90 %  10 %    0 %     0 %
  prompts                60        - 40.0 ms 40.0 ms  90 %  10 %    0 %     0 %
`
	if got := w.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	list := e.List()
	if len(list) != 1 || len(list[0].Kinds) != 4 || list[0].TID != 8 || list[0].IdleNS != int64(2*(500+25+375+300)*ms) {
		t.Fatalf("%+v", list)
	}
	for i, want := range []struct {
		graph    string
		steps    uint64
		requests float64
	}{{"0x38", 200, 1}, {"0x10", 1000, 4.002}, {"0x70", 2000, 5}, {"", 60, 0}} {
		k := &list[0].Kinds[i]
		requests := 0.0
		if k.Requests != nil {
			requests = *k.Requests
		}
		if k.Graph != want.graph || k.Took.Count != want.steps || requests != want.requests {
			t.Errorf("got graph %q, %d steps, %g requests; want %+v", k.Graph, k.Took.Count, requests, want)
		}
	}
}

// The engines and the graphs of each are bounded.
func TestManyEngines(t *testing.T) {
	var e Engines
	var graphs, pids []tick.EngineSteps
	for i := range uint64(2 * mostKinds) {
		graphs = append(graphs, engineStepsOf(tick.EngineTokens, i+1, 1, 1, time.Millisecond))
		x := engineStepsOf(tick.EnginePrompts, 0, 1, 0, time.Millisecond)
		x.PID = 1000 + uint32(i)
		pids = append(pids, x)
	}
	e.Add(&tick.Tick{EngineSteps: append(graphs, pids...)})
	list := e.List()
	all := uint64(0)
	for _, k := range list[0].Kinds {
		all += k.Took.Count
	}
	if len(list) != mostEngines || len(list[0].Kinds) != mostKinds+1 || all != 2*mostKinds {
		t.Errorf("%d engines, the first with %d kinds of %d steps", len(list), len(list[0].Kinds), all)
	}
}
