package metric

import (
	"fmt"
	"testing"

	"ingero/internal/tick"
)

// Servers of one engine and model have one series: requests and growth are added up, and the
// fullest KV cache counts. What is unknown has no series.
func TestInferenceServers(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	w := newWorld(t)
	read := func(pid uint32, running, kv, tokens float64) tick.Inference {
		return tick.Inference{Time: w.now, PID: pid, Engine: "vLLM", Model: "m", Running: n(running), KVCache: n(kv), GeneratedTokens: n(tokens)}
	}
	failed := func() tick.Inference { return tick.Inference{Time: w.now, PID: 3, Engine: "SGLang", Why: "w"} }
	s := w.tick(func(t *tick.Tick) {
		t.Inference = []tick.Inference{read(1, 2, 0.5, 10), read(2, 3, 0.25, 20), failed()}
	})
	near(t, "running", value(s, InferenceRequests, "running", "vLLM", "m"), 5)
	near(t, "KV cache", value(s, InferenceKVCache, "vLLM", "m"), 0.5)
	near(t, "tokens", value(s, InferenceTokens, "generated", "vLLM", "m"), 30)
	near(t, "unreadable", value(s, InferenceUnreadable, "SGLang", ""), 1)
	near(t, "unreadable", value(s, InferenceUnreadable, "vLLM", "m"), 0)
	if f := points(s, InferencePreemptions); len(f) > 0 {
		t.Errorf("preemptions: %v", f)
	}
	s = w.tick(func(t *tick.Tick) { t.Inference = []tick.Inference{read(1, 1, 0.125, 5)} })
	near(t, "running", value(s, InferenceRequests, "running", "vLLM", "m"), 4)
	near(t, "tokens", value(s, InferenceTokens, "generated", "vLLM", "m"), 35)
	w.now = w.now.Add(silent)
	s = w.tick(nil)
	near(t, "tokens", value(s, InferenceTokens, "generated", "vLLM", "m"), 35)
	if f := points(s, InferenceRequests); len(f) > 0 {
		t.Errorf("requests of servers that are no longer read: %v", f)
	}
	near(t, "unreadable", value(s, InferenceUnreadable, "SGLang", ""), 1)
	w.now = w.now.Add(silentFailed)
	s = w.tick(nil)
	if f := points(s, InferenceUnreadable); len(f) > 0 {
		t.Errorf("silent servers: %v", f)
	}
}

// The state of a server ends with its process. The growth of its counters stays.
func TestInferenceServerEnds(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	listed := func(pid uint32) tick.Process { return tick.Process{PID: pid, Comm: "vllm", Started: epoch} }
	w := newWorld(t)
	w.tick(func(t *tick.Tick) {
		for pid := range uint32(3) {
			t.Inference = append(t.Inference, tick.Inference{Time: w.now, PID: pid, Engine: "vLLM", Model: "m", Running: n(4), KVCache: n(0.5), GeneratedTokens: n(10)})
		}
		t.Processes, t.Others = []tick.Process{listed(1)}, []tick.Process{listed(2)} // the process of pid 0 is unknown
	})
	s := w.tick(func(t *tick.Tick) { t.Processes = []tick.Process{listed(1)} })
	near(t, "running after the second ended", value(s, InferenceRequests, "running", "vLLM", "m"), 8)
	s = w.tick(func(t *tick.Tick) {
		t.Processes = []tick.Process{listed(1)}
		t.Processes[0].Ended = w.now
	})
	near(t, "running after both ended", value(s, InferenceRequests, "running", "vLLM", "m"), 4)
	near(t, "tokens", value(s, InferenceTokens, "generated", "vLLM", "m"), 30)
}

// Models beyond the limit have one series.
func TestInferenceModelsAreBounded(t *testing.T) {
	w := newWorld(t)
	one := 1.0
	s := w.tick(func(t *tick.Tick) {
		for i := range uint32(3 * mostModels) {
			t.Inference = append(t.Inference, tick.Inference{Time: w.now, PID: i, Engine: "vLLM", Model: fmt.Sprint(i), Running: &one, GeneratedTokens: &one})
		}
	})
	if got := len(points(s, InferenceTokens)); got != mostModels {
		t.Errorf("%d series", got)
	}
	near(t, "tokens", value(s, InferenceTokens, "generated", Other, Other), 2*mostModels+1)
}

// points returns a metric's points.
func points(s *Snapshot, id ID) []Point {
	for i := range s.Families {
		if s.Families[i].Row == &Rows[id] {
			return s.Families[i].Points
		}
	}
	return nil
}
