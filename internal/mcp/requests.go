package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/wire"
)

func requestsTool() *tool {
	return &tool{
		name: "get_requests", quiet: true, title: "What requests to a server waited for",
		about: "HTTP requests to the servers on this machine (vLLM, SGLang and others): how many, how fast, and what they waited for until the first byte of the answer: unread (until the server read the request), receiving (until all of it had arrived), server (the server, while its engine had no work), " +
			"prompts (the engine computed prompts of other requests), own-prompt, tokens, steps (prompts or tokens: an engine without CUDA graphs), delivery (from the engine to the socket). With slo=ttft=200ms the waits are of the requests that missed it. Use it for 'why was this request slow?', 'why did latency rise?'.",
		facts: []column{{"from", "start of the time range", moment, false}, {"to", "end of the time range", moment, false}},
		columns: []column{
			{"server", "name of the server's process", words, false}, {"pid", "its process ID (pid)", count, false}, {"port", "its port", count, false}, {"engine", "its inference engine and model", words, false},
			{"requests", "number of requests with a body", count, false}, {"errors", "number of these that it answered with status 400 or more, or not at all", count, false}, {"slow_readers", "number of these whose client read slowly", count, false},
			{"ttft_p50_ns", "median time to the first byte (TTFT)", nanos, false}, {"ttft_p99_ns", "99th percentile of the time to the first byte", nanos, false}, {"tpot_p50_ns", "median time between two events of an answer (TPOT)", nanos, false}, {"tpot_p99_ns", "99th percentile of the time between two events", nanos, false},
			{"total_p99_ns", "99th percentile of the time to the last byte", nanos, false},
			{"slow", "number of requests whose time is divided: those that missed the objective, or all", count, false}, {"waited_ns", "time that these requests waited in all", nanos, false}, {"waited_for", "what they waited for, by share of that time", words, false}, {"engine_was", "what the engine's steps among it were", words, false},
			{"slowest", "the request with the longest time to the first byte", words, false}, {"state", "what the server reports of itself", words, false},
		},
		register: answers((*server).requests),
	}
}

// Requests are the arguments of get_requests.
type Requests struct {
	SLO string `json:"slo,omitempty" jsonschema:"objective that slow requests miss: ttft=200ms (first byte), tpot=30ms (between two events) or total=5s; default: all requests"`
	When
	PIDs
	Labels
	Form
}

func (s *server) requests(ctx context.Context, in *Requests) (*answer, error) {
	v, err := s.labelled(ctx, in.When, in.PIDs, in.Labels)
	if err != nil {
		return nil, err
	}
	if in.SLO != "" {
		v.Set("slo", in.SLO)
	}
	var out wire.Requests
	if err := s.get(ctx, "/api/v1/requests", v, &out); err != nil {
		return nil, err
	}
	a := &answer{facts: []any{stamp(out.From), stamp(out.To)}, notes: out.Notes}
	for i := range out.Servers {
		a.rows = append(a.rows, requestsRow(&out.Servers[i], out.Inference))
	}
	if len(a.rows) == 0 {
		a.lead = "no request to a server was recorded in this time range"
	}
	return a, nil
}

// requestsRow is the row of a server. own has what inference servers report of themselves.
func requestsRow(s *wire.Server, own []wire.InferenceServer) []any {
	row := []any{s.Comm, s.PID, s.Port, nil, s.Requests, s.Failed + s.Refused + s.Unanswered, known(s.SlowReader),
		s.FirstByte.P50NS, s.FirstByte.P99NS, s.Between.P50NS, s.Between.P99NS, s.Whole.P99NS, nil, nil, nil, nil, nil, nil}
	if e := s.Engine; e != nil {
		row[3] = strings.TrimSpace(e.Name + " " + e.Model)
	}
	if w := s.Waits; w != nil {
		row[12], row[13], row[14], row[15] = w.Requests, w.TotalNS, waitText(w.Parts), waitText(w.Engine)
	}
	if len(s.Slowest) > 0 {
		x := &s.Slowest[0]
		ns := column{kind: nanos}
		row[16] = fmt.Sprintf("%s at %s from %s", ns.short(value(cmp.Or(x.FirstNS, x.HeadNS)), maxText), x.Arrived.UTC().Format("2006-01-02 15:04:05.000"), x.Peer)
	}
	if i := slices.IndexFunc(own, func(x wire.InferenceServer) bool { return x.PID == s.PID }); i >= 0 {
		row[17] = stateText(&own[i])
	}
	return row
}

// waitText lists parts of requests' time with their shares, the longest first.
func waitText(parts []wire.WaitPart) any {
	sum := int64(0)
	for _, p := range parts {
		sum += p.NS
	}
	longest := slices.SortedStableFunc(slices.Values(parts), func(a, b wire.WaitPart) int { return cmp.Compare(b.NS, a.NS) })
	var out []string
	for _, p := range longest {
		if p.NS*100 >= sum && sum > 0 {
			out = append(out, fmt.Sprintf("%s %d%%", p.Name, (p.NS*100+sum/2)/sum))
		}
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Join(out, ", ")
}

// stateText says how many requests a server has, and how full its KV cache was.
func stateText(x *wire.InferenceServer) any {
	var out []string
	for _, p := range []struct {
		n    *float64
		unit string
	}{{x.Running, " running"}, {x.Waiting, " waiting"}, {x.Preemptions, " preemptions"}} {
		if p.n != nil {
			out = append(out, strconv.FormatFloat(*p.n, 'f', -1, 64)+p.unit)
		}
	}
	if x.KVCache != nil {
		out = append(out, fmt.Sprintf("KV cache %.0f%%", *x.KVCache*100))
	}
	if len(out) == 0 {
		return nil
	}
	return strings.Join(out, ", ")
}
