package serve

import (
	"testing"
	"time"

	"ingero/internal/tick"
)

// Requests that were answered before an engine ended are divided, also if the engine has several processes
// that launch (tensor parallelism), and not all have ended.
func TestRanksEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		server, first, second string
		ends                  [3]int64 // since began, 0: it lives
		split                 bool
	}{
		"all":                   {"vllm serve m -tp 2", "VLLM::Worker_TP0", "VLLM::Worker_TP1", [3]int64{33 * ms, 31 * ms, 32 * ms}, true},
		"the first rank":        {"vllm serve m -tp 2", "VLLM::Worker_TP0", "VLLM::Worker_TP1", [3]int64{0, 31 * ms, 0}, true},
		"the second rank":       {"vllm serve m -tp 2", "VLLM::Worker_TP0", "VLLM::Worker_TP1", [3]int64{0, 0, 31 * ms}, true},
		"before the answer":     {"vllm serve m -tp 2", "VLLM::Worker_TP0", "VLLM::Worker_TP1", [3]int64{0, 31 * ms, 29 * ms}, false},
		"data parallel engines": {"vllm serve m -dp 2", "VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1", [3]int64{33 * ms, 31 * ms, 31 * ms}, false},
		"two models":            {"ollama serve", "ollama runner --model a", "ollama runner --model b", [3]int64{33 * ms, 31 * ms, 31 * ms}, false},
		"one of two models":     {"ollama serve", "ollama runner --model a", "ollama runner --model b", [3]int64{0, 0, 31 * ms}, false},
	} {
		t.Run(name, func(t *testing.T) {
			processes := []tick.Process{{PID: 10, Where: tick.Where{Cmdline: tt.server}},
				{PID: 11, PPID: 10, Where: tick.Where{Cmdline: tt.first}}, {PID: 12, PPID: 10, Where: tick.Where{Cmdline: tt.second}}}
			var x Splitter
			x.Tick(&tick.Tick{Processes: processes})
			x.Batch(steps(11, s{0, 10 * ms, true}, s{0, 20 * ms, false}))
			x.Batch(steps(12, s{0, 10 * ms, true}, s{0, 20 * ms, false}))
			for i, at := range tt.ends {
				if at != 0 {
					processes[i].Ended = time.Unix(0, began+at)
				}
			}
			now := &tick.Tick{Processes: processes, Requests: []tick.Request{request(0, 0, 30*ms, 30*ms)}}
			x.Tick(now)
			if got := &now.Requests[0]; got.Split != tt.split {
				t.Errorf("split: %v, by %d", got.Split, got.EnginePID)
			}
		})
	}
}

// A process that reuses the PID of an ended one counts as living.
func TestReusedPID(t *testing.T) {
	var x Splitter
	x.Tick(served())
	over := served()
	over.Processes[1].Ended = time.Unix(0, began)
	x.Tick(over)
	x.Tick(served())
	x.Batch(steps(11, s{0, 10 * ms, true}, s{0, 20 * ms, false}))
	now := served(request(0, 0, 30*ms, 30*ms))
	x.Tick(now)
	if !now.Requests[0].Split {
		t.Error("the request is not split")
	}
}
