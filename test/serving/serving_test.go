package serving

import (
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ingero/sim"
)

func extract(t *testing.T) sim.Stack {
	t.Helper()
	stack, err := sim.Extract(filepath.Join(t.TempDir(), "sim"))
	if err != nil {
		t.Fatal(err)
	}
	return stack
}

// Every request is answered with the tokens that it asked for, with each fault too. The truth, the
// metrics and the libraries' counts say the same.
func TestAnswers(t *testing.T) {
	stack := extract(t)
	never := func(*Step) bool { return false }
	decode := func(s *Step) bool { return s.Phase == "decode" }
	for _, c := range []struct {
		name           string
		server, client string
		eager          func(*Step) bool // whether a decode step uses no graph
		recaptures     bool
		swaps          bool
	}{
		{name: "healthy"},
		{name: "kv", server: "--fault kv"},
		{name: "scheduler", server: "--fault scheduler"},
		{name: "tokenizer", server: "--fault tokenizer"},
		{name: "graph-miss", server: "--fault graph-miss", eager: func(s *Step) bool { return s.Batch > 1 }},
		{name: "lora", server: "--fault lora", swaps: true},
		{name: "cold-start", server: "--fault cold-start", recaptures: true},
		{name: "no graphs", server: "--cudagraph-capture-sizes", eager: decode},
		{name: "prefill", server: "--no-enable-chunked-prefill", client: "--fault prefill"},
		{name: "prefill in chunks", client: "--fault prefill"},
		{name: "slow-client", server: "--send-buffer 1", client: "--fault slow-client"},
		{name: "a worker", server: "--distributed-executor-backend mp --fault lora", swaps: true},
		{name: "two workers", server: "--tensor-parallel-size 2 --fault cold-start", recaptures: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			counts, err := sim.NewCounts(filepath.Join(t.TempDir(), "counts"))
			if err != nil {
				t.Fatal(err)
			}
			s := Start(t, stack, []string{"INGERO_SIM_ZERO=1", "INGERO_SIM_SYNC=block", counts.Env()}, strings.Fields(c.server)...)
			s.Serve()
			answers := s.Answers(s.StartLoad(append(strings.Fields(c.client), "--connections", "4", "--requests", "3")...))
			truth := s.Truth()
			checkAnswers(t, answers, truth.Requests)
			checkSteps(t, &truth)
			checkMetrics(t, s, truth.Requests)
			checkCounts(t, counts, &truth, len(s.Computing()))
			if c.eager == nil {
				c.eager = never
			}
			for i := range truth.Steps {
				if x := &truth.Steps[i]; decode(x) && x.Graph == c.eager(x) {
					t.Errorf("step %d: graph %v", x.Step, x.Graph)
				}
			}
			if got := len(truth.Captures) > 6; got != c.recaptures {
				t.Errorf("%d captures", len(truth.Captures))
			}
			if got := slices.ContainsFunc(truth.Steps, func(x Step) bool { return x.Swaps > 0 }); got != c.swaps {
				t.Errorf("adapters copied: %v", got)
			}
		})
	}
}

// checkAnswers compares each answer with the server's record.
func checkAnswers(t *testing.T, answers []Answer, requests []Request) {
	t.Helper()
	if own := slices.DeleteFunc(slices.Clone(answers), func(a Answer) bool { return strings.HasPrefix(a.ID, "cmpl-long") }); len(own) != 12 {
		t.Errorf("%d answers", len(own))
	}
	if len(requests) != len(answers) {
		t.Fatalf("%d requests in the truth, %d answers", len(requests), len(answers))
	}
	for i := range answers {
		a := &answers[i]
		at := slices.IndexFunc(requests, func(r Request) bool { return r.ID == a.ID })
		if at < 0 {
			t.Fatalf("no %s in the truth", a.ID)
		}
		r := &requests[at]
		if a.Status != 200 || len(a.Tokens) != a.OutputTokens || len(r.Sent) != a.OutputTokens || r.Finished != "length" ||
			r.PromptTokens != a.PromptTokens || r.OutputTokens != a.OutputTokens {
			t.Errorf("%+v\n%+v", a, r)
			continue
		}
		// Each time is of an event that causes the next one.
		order := []int64{a.Sent, r.Received, r.Tokenized, r.Queued, r.Scheduled, r.First, r.Sent[0], a.Tokens[0]}
		if !slices.IsSorted(order) || !slices.IsSorted(r.Sent) || !slices.IsSorted([]int64{r.Last, r.Sent[len(r.Sent)-1], a.Done}) {
			t.Errorf("times out of order: %+v\n%+v", a, r)
		}
	}
}

// checkSteps compares the steps with the requests.
func checkSteps(t *testing.T, truth *Truth) {
	t.Helper()
	decoded, prefilled, preempted := map[int]int{}, 0, 0
	for i := range truth.Steps {
		s := &truth.Steps[i]
		padded := s.Batch
		if s.Graph {
			padded = 1 << bits.Len(uint(s.Batch-1)) // the sizes are powers of two
		}
		if s.Step != i+1 || s.Batch != len(s.Requests) || s.Padded != padded {
			t.Errorf("step %d: %+v", i+1, s)
		}
		if s.Phase == "prefill" {
			prefilled += s.Tokens
			continue
		}
		if s.Tokens != s.Batch {
			t.Errorf("a decode step computes a token of each request: %+v", s)
		}
		for _, r := range s.Requests {
			decoded[r]++
		}
	}
	for i := range truth.Requests {
		r := &truth.Requests[i]
		prefilled -= r.PromptTokens
		preempted += r.Preempted
		// A step that computes a prompt, again after a preemption, makes a token too.
		if n := r.OutputTokens - 1; decoded[r.Number] > n || decoded[r.Number] < n-r.Preempted {
			t.Errorf("%d decode steps of %+v", decoded[r.Number], r)
		}
	}
	if prefilled < 0 || prefilled > 0 != (preempted > 0) {
		t.Errorf("%d tokens of prompts were computed again, with %d preemptions", prefilled, preempted)
	}
}

// checkMetrics compares the metrics with the requests.
func checkMetrics(t *testing.T, s *Server, requests []Request) {
	t.Helper()
	var prompts, outputs, preempted int
	for i := range requests {
		prompts += requests[i].PromptTokens
		outputs += requests[i].OutputTokens
		preempted += requests[i].Preempted
	}
	n := len(requests)
	want := map[string]int{
		"num_requests_running": 0, "num_requests_waiting": 0, "kv_cache_usage_perc": 0, "num_preemptions_total": preempted,
		"request_success_total length": n, "request_success_total abort": 0, "prompt_tokens_total": prompts, "generation_tokens_total": outputs, "inter_token_latency_seconds_count": outputs - n,
		"time_to_first_token_seconds_count": n, "e2e_request_latency_seconds_count": n, "request_queue_time_seconds_count": n,
		"request_prefill_time_seconds_count": n, "request_decode_time_seconds_count": n,
	}
	got := metrics(t, s)
	for name, n := range want {
		if v, ok := got["vllm:"+name]; !ok || v != float64(n) {
			t.Errorf("%s: got %v, want %d", name, v, n)
		}
	}
}

// metrics returns the metrics by name. That of finished requests also has the reason.
func metrics(t *testing.T, s *Server) map[string]float64 {
	t.Helper()
	_, text := ask(t, "GET", s.URL("/metrics"), "")
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, "{")
		labels, value, _ := strings.Cut(rest, "} ")
		if _, reason, found := strings.Cut(labels, "finished_reason="); found {
			name += " " + strings.Trim(reason, `"`)
		}
		if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			out[name] = v
		}
	}
	return out
}

// checkCounts compares the libraries' counts of calls with the steps, which a number of processes
// computed.
func checkCounts(t *testing.T, counts *sim.Counts, truth *Truth, processes int) {
	t.Helper()
	got, err := counts.Read()
	if err != nil {
		t.Fatal(err)
	}
	graphs, copies := 0, 0
	for i := range truth.Steps {
		copies += 2 + truth.Steps[i].Swaps
		if truth.Steps[i].Graph {
			graphs++
		}
	}
	for name, n := range map[string]int{
		"cudaGraphLaunch": graphs, "cudaMemcpyAsync": copies, "cudaStreamSynchronize": len(truth.Steps) + len(truth.Captures),
		"cudaStreamBeginCapture": len(truth.Captures), "cudaLaunchKernel": 64 * (2*len(truth.Captures) + len(truth.Steps) - graphs),
	} {
		if n *= processes; got[name] != uint64(n) {
			t.Errorf("%s: got %d calls, want %d", name, got[name], n)
		}
	}
}
