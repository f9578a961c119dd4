package metric

import (
	"strconv"
	"testing"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
)

// engineStepsOf sums up n steps of 4 ms, half of which is on a CPU, with 1 ms without work before each.
func engineStepsOf(pid uint32, kind tick.EngineStep, n, served uint64) tick.EngineSteps {
	var took stats.Sketch
	for range n {
		took.Add(int64(4*millisecond), 1)
	}
	each := time.Duration(n) * millisecond
	return tick.EngineSteps{PID: pid, TID: pid, Kind: kind, Count: n, Served: served, Dur: took, Idle: each, GPU: 2 * each, CPU: 2 * each}
}

// The steps of engines are counted by kind, and their time by state.
func TestEngineSteps(t *testing.T) {
	w := newWorld(t)
	for n := range 3 {
		s := w.tick(func(x *tick.Tick) {
			x.Processes = []tick.Process{vllm}
			x.EngineSteps = []tick.EngineSteps{engineStepsOf(10, tick.EngineTokens, 100, 250), engineStepsOf(10, tick.EnginePrompts, 20, 0)}
		})
		times := float64(n + 1)
		near(t, "steps for tokens", value(s, EngineStep, "tokens", "vLLM", "m"), 100*times)
		near(t, "steps for prompts", value(s, EngineStep, "prompts", "vLLM", "m"), 20*times)
		near(t, "requests", value(s, EngineRequests, "vLLM", "m"), 250*times)
		for state, want := range map[string]float64{"idle": 0.12, "gpu": 0.24, "cpu": 0.24} {
			near(t, state, value(s, EngineTime, state, "vLLM", "m"), want*times)
		}
		near(t, "all states", sum(s, EngineTime), 0.6*times)
	}
	s := w.tick(nil) // a later tick has the same sums
	near(t, "steps for tokens", value(s, EngineStep, "tokens", "vLLM", "m"), 300)
}

// Engines beyond the limit are counted as other.
func TestManyEngines(t *testing.T) {
	w := newWorld(t)
	s := w.tick(func(x *tick.Tick) {
		for i := range 2 * mostModels {
			pid := uint32(100 + i)
			x.Processes = append(x.Processes, tick.Process{PID: pid, Comm: "vllm", Started: epoch, Where: tick.Where{Cmdline: "vllm serve m" + strconv.Itoa(i)}})
			x.EngineSteps = append(x.EngineSteps, engineStepsOf(pid, tick.EngineTokens, 1, 1))
		}
	})
	if n := len(points(s, EngineRequests)); n != mostModels {
		t.Errorf("%d series, want %d", n, mostModels)
	}
	near(t, "other", value(s, EngineRequests, Other, Other), mostModels+1)
	near(t, "all", sum(s, EngineRequests), 2*mostModels)
}
