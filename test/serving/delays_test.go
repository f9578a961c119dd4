package serving

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const ms = int64(1e6)

// tokens returns steps of 2 ms, one after the other, that compute a token of each request.
func tokens(from int64, n int, requests ...int) (out []Step) {
	for i := range n {
		out = append(out, Step{At: from + int64(i)*2*ms, MS: 2, ScheduleMS: 0.1, Phase: "decode", Batch: len(requests), Tokens: len(requests), Graph: true, Requests: requests})
	}
	return out
}

// A fault's delays are what its steps and requests take beyond the usual, in the union of time.
func TestDelays(t *testing.T) {
	during := Span{100 * ms, 200 * ms}
	// Ten usual steps before the fault, and ten after it.
	steps := func(fault ...Step) (all []Step) {
		return append(append(append(all, tokens(0, 10, 1, 2)...), fault...), tokens(300*ms, 10, 1, 2)...)
	}
	prompt := func(requests ...int) Step {
		return Step{At: 100 * ms, MS: 50, Phase: "prefill", Batch: len(requests), Tokens: 2048, Requests: requests}
	}
	request := func(id string, number int, received, queued, last, sent int64) Request {
		return Request{ID: id, Number: number, Received: received * ms, Queued: queued * ms, Last: last * ms, Sent: []int64{sent * ms}}
	}
	aLong, other := request("cmpl-long-0", 3, 90, 95, 150, 150), request("cmpl-c1-0", 4, 90, 95, 400, 400)
	for _, tt := range []struct {
		name, fault string
		truth       Truth
		want        []Span
	}{
		{"a long prompt stalls others", "prefill", Truth{Requests: []Request{aLong}, Steps: steps(prompt(3))}, []Span{{102 * ms, 150 * ms}}},
		{"a long prompt, with nobody else between tokens", "prefill", Truth{Requests: []Request{aLong}, Steps: append(tokens(0, 10, 1, 2), prompt(3))}, nil},
		{"a prompt of another request", "prefill", Truth{Requests: []Request{other}, Steps: steps(prompt(4))}, nil},
		{"a request is computed again, beside a new one", "kv", Truth{Steps: steps(Step{At: 100 * ms, MS: 40, Phase: "prefill", Batch: 2, Tokens: 400, Requests: []int{1, 5}})},
			[]Span{{22 * ms, 140 * ms}}},
		{"a request is preempted after its prompt", "kv", Truth{Requests: []Request{{Number: 5, Preempted: 1}}, Steps: []Step{
			{At: 100 * ms, MS: 10, Phase: "prefill", Requests: []int{5}}, {At: 150 * ms, MS: 10, Phase: "prefill", Requests: []int{5}}}}, []Span{{110 * ms, 160 * ms}}},
		{"a prompt in parts", "kv", Truth{Steps: []Step{
			{At: 100 * ms, MS: 10, Phase: "prefill", Requests: []int{5}}, {At: 150 * ms, MS: 10, Phase: "prefill", Requests: []int{5}}}}, nil},
		{"the scheduler takes longer", "scheduler", Truth{Steps: steps(Step{At: 100 * ms, MS: 7, ScheduleMS: 5.1, Phase: "decode", Requests: []int{1}})},
			[]Span{{100*ms + ms/10, 105*ms + ms/10}}},
		{"the scheduler takes longer at another time", "scheduler", Truth{Steps: steps(Step{At: 250 * ms, MS: 7, ScheduleMS: 5.1, Phase: "decode", Requests: []int{1}})}, nil},
		{"requests arrive late at an engine without work", "tokenizer", Truth{Requests: []Request{
			request("cmpl-c0-0", 1, 10, 11, 90, 90), request("cmpl-c1-0", 2, 20, 21, 50, 50), // usually 1 ms
			request("cmpl-c0-1", 3, 110, 131, 140, 140), request("cmpl-c1-1", 4, 120, 151, 160, 160), // the engine works from 131 to 140
		}}, []Span{{111 * ms, 131 * ms}, {140 * ms, 151 * ms}}},
		{"a client went away before its request was queued", "tokenizer", Truth{Requests: []Request{request("cmpl-c0-0", 1, 110, 0, 0, 0)}}, nil},
		{"steps without a graph", "graph-miss", Truth{Steps: steps(Step{At: 100 * ms, MS: 6, Phase: "decode", Batch: 2, Tokens: 2, Requests: []int{1, 2}})}, []Span{{102 * ms, 106 * ms}}},
		{"steps that always have no graph", "graph-miss", Truth{Steps: []Step{{At: 100 * ms, MS: 6, Phase: "decode", Tokens: 2}}}, nil},
		{"steps that copy adapters", "lora", Truth{Steps: steps(Step{At: 100 * ms, MS: 12, Phase: "decode", Batch: 2, Tokens: 2, Graph: true, Swaps: 2, Requests: []int{1, 2}})},
			[]Span{{102 * ms, 112 * ms}}},
		{"graphs are captured again", "cold-start", Truth{Steps: tokens(90*ms, 1, 1), Captures: []Capture{{At: 0, MS: 20, Size: 1}, {At: 99 * ms, MS: 30, Size: 1}, {At: 150 * ms, MS: 10, Size: 2}, {At: 250 * ms, MS: 10, Size: 4}}},
			[]Span{{99 * ms, 129 * ms}, {150 * ms, 160 * ms}, {250 * ms, 260 * ms}}},
		{"a client reads slowly", "slow-client", Truth{Requests: []Request{
			request("cmpl-c1-0", 1, 90, 91, 120, 121), request("cmpl-c0-0", 2, 90, 91, 120, 141), request("cmpl-c0-1", 3, 141, 142, 150, 160)}},
			[]Span{{121 * ms, 141 * ms}, {151 * ms, 160 * ms}}},
		{"a client reads slowly at another time", "slow-client", Truth{Requests: []Request{request("cmpl-c0-0", 2, 10, 11, 20, 90)}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.truth.Delays(tt.fault, during)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The usual time of a step is that of steps with as many tokens, or nearly as many.
func TestUsual(t *testing.T) {
	truth := Truth{}
	for n := range 40 {
		for range 3 {
			truth.Steps = append(truth.Steps, Step{Phase: "prefill", Tokens: n, MS: float64(n)})
		}
	}
	truth.Steps = append(truth.Steps, Step{At: 5, Phase: "prefill", Tokens: 30, MS: 1000}) // during the fault
	usual := truth.usual(Span{5, 6})
	for _, tt := range []struct {
		phase  string
		tokens int
		want   float64
	}{{"prefill", 30, 30}, {"prefill", 100, 38}, {"decode", 30, 7}} {
		if got := usual(&Step{Phase: tt.phase, Tokens: tt.tokens, MS: 7}); got != tt.want {
			t.Errorf("%s of %d tokens: %v ms, want %v", tt.phase, tt.tokens, got, tt.want)
		}
	}
}

// Ranges are joined, and cut where others are.
func TestRanges(t *testing.T) {
	got := union([]Span{{5, 9}, {1, 3}, {2, 4}, {4, 4}, {8, 6}, {9, 10}})
	if diff := cmp.Diff([]Span{{1, 4}, {5, 10}}, got); diff != "" {
		t.Error(diff)
	}
	for _, tt := range []struct {
		of     Span
		others []Span
		want   []Span
	}{
		{Span{2, 8}, nil, []Span{{2, 8}}},
		{Span{2, 8}, []Span{{0, 1}, {8, 9}}, []Span{{2, 8}}},
		{Span{2, 8}, []Span{{0, 3}, {4, 5}, {7, 9}}, []Span{{3, 4}, {5, 7}}},
		{Span{2, 8}, []Span{{1, 9}}, nil},
	} {
		if diff := cmp.Diff(tt.want, union(without(tt.of, tt.others))); diff != "" {
			t.Errorf("%v without %v: %s", tt.of, tt.others, diff)
		}
	}
}
