package serving

import (
	"encoding/json"
	"fmt"
)

// Answer is a client's record of a request. Times are CLOCK_MONOTONIC in ns.
type Answer struct {
	ID           string  `json:"id"`
	PromptTokens int     `json:"prompt_tokens"`
	OutputTokens int     `json:"output_tokens"` // as asked for
	Slow         bool    `json:"slow"`          // the client reads slowly during the fault
	Status       int     `json:"status"`
	Sent         int64   `json:"sent"`
	Headers      int64   `json:"headers"`
	Tokens       []int64 `json:"tokens"` // time of each event
	Done         int64   `json:"done"`
}

// Truth is a server's own record.
type Truth struct {
	Requests []Request
	Steps    []Step
	Captures []Capture
}

// Request is a request that ended. Times are CLOCK_MONOTONIC in ns. The engine's times are 0 if the
// client went away.
type Request struct {
	ID           string  `json:"id"`
	Number       int     `json:"number"` // in the steps
	PromptTokens int     `json:"prompt_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Finished     string  `json:"finished"`  // "length" or "abort"
	Received     int64   `json:"received"`  // the API server read the first bytes
	Tokenized    int64   `json:"tokenized"` // the prompt's tokens are known
	Queued       int64   `json:"queued"`    // the engine read it
	Scheduled    int64   `json:"scheduled"` // first step
	First        int64   `json:"first"`     // first token in the engine
	Last         int64   `json:"last"`      // last token in the engine
	Sent         []int64 `json:"sent"`      // each token, when its send began
	Preempted    int     `json:"preempted"` // number of preemptions
}

// Step is a step of the engine.
type Step struct {
	Step       int     `json:"step"`        // number, from 1
	At         int64   `json:"at"`          // begin, CLOCK_MONOTONIC in ns
	ScheduleMS float64 `json:"schedule_ms"` // until the requests were chosen
	MS         float64 `json:"ms"`          // whole step
	Phase      string  `json:"phase"`       // "prefill" or "decode"
	Batch      int     `json:"batch"`
	Padded     int     `json:"padded"` // size of the graph
	Tokens     int     `json:"tokens"`
	Graph      bool    `json:"graph"`
	Swaps      int     `json:"swaps"` // adapters copied
	Requests   []int   `json:"requests"`
}

// Capture is the capture of a graph.
type Capture struct {
	At   int64   `json:"at"` // begin, CLOCK_MONOTONIC in ns
	MS   float64 `json:"ms"`
	Size int     `json:"size"` // batch size
}

// add parses a line.
func (t *Truth) add(line []byte) error {
	var kind struct{ Kind string }
	if err := json.Unmarshal(line, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "request":
		t.Requests = append(t.Requests, Request{})
		return json.Unmarshal(line, &t.Requests[len(t.Requests)-1])
	case "step":
		t.Steps = append(t.Steps, Step{})
		return json.Unmarshal(line, &t.Steps[len(t.Steps)-1])
	case "capture":
		t.Captures = append(t.Captures, Capture{})
		return json.Unmarshal(line, &t.Captures[len(t.Captures)-1])
	}
	return fmt.Errorf("no kind %q", kind.Kind)
}
