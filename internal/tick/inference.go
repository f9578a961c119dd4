package tick

import (
	"math"
	"time"
)

// Inference is one read of the metrics of an inference server, or why the read failed. Each read is
// in one tick. Unknown values are nil: absent, not zero.
type Inference struct {
	Time   time.Time `json:"time"`
	Since  time.Time `json:"since,omitzero"` // time of the last successful read; zero: none, so counters and durations are unknown
	PID    uint32    `json:"pid"`            // of the server process
	Engine string    `json:"engine"`         // "vLLM"; empty: unknown
	Model  string    `json:"model,omitempty"`
	URL    string    `json:"url"`           // of the metrics, in the server's network namespace
	Why    string    `json:"why,omitempty"` // why the metrics could not be read; empty: they were read
	Do     string    `json:"do,omitempty"`  // remedy

	// State at Time.
	Running *float64 `json:"running,omitempty"`
	Waiting *float64 `json:"waiting,omitempty"`
	KVCache *float64 `json:"kv_cache,omitempty"` // share of the KV cache in use, 0 to 1

	// Growth from Since to Time.
	Preemptions     *float64 `json:"preemptions,omitempty"`
	PromptTokens    *float64 `json:"prompt_tokens,omitempty"`
	GeneratedTokens *float64 `json:"generated_tokens,omitempty"`

	// Durations that ended from Since to Time.
	FirstToken    *Durations `json:"first_token,omitempty"`
	BetweenTokens *Durations `json:"between_tokens,omitempty"`
	Request       *Durations `json:"request,omitempty"`
	Queue         *Durations `json:"queue,omitempty"`
	Prefill       *Durations `json:"prefill,omitempty"`
	Decode        *Durations `json:"decode,omitempty"`
}

// InferenceNumber is a number of [Inference]: its name wherever it is stored or shown, and its
// accessor.
type InferenceNumber struct {
	Name, About string
	Counter     bool // growth since the last read; else the state
	Value       func(*Inference) **float64
}

// InferenceNumbers are the numbers in storage order.
var InferenceNumbers = []InferenceNumber{
	{"running", "requests that the server computes", false, func(x *Inference) **float64 { return &x.Running }},
	{"waiting", "requests in the server's queue", false, func(x *Inference) **float64 { return &x.Waiting }},
	{"kv_cache", "share of the KV cache in use, 0 to 1; the highest of the server's engines", false, func(x *Inference) **float64 { return &x.KVCache }},
	{"preemptions", "requests that lost their KV cache to others since the last read", true, func(x *Inference) **float64 { return &x.Preemptions }},
	{"prompt_tokens", "prompt tokens since the last read", true, func(x *Inference) **float64 { return &x.PromptTokens }},
	{"generated_tokens", "generated tokens since the last read", true, func(x *Inference) **float64 { return &x.GeneratedTokens }},
}

// InferenceDuration is a kind of durations of [Inference]: its name wherever it is stored or shown,
// and its accessor.
type InferenceDuration struct {
	Name, About string
	Value       func(*Inference) **Durations
}

// InferenceDurations are the kinds of durations in storage order.
var InferenceDurations = []InferenceDuration{
	{"first_token", "time from a request to its first token", func(x *Inference) **Durations { return &x.FirstToken }},
	{"between_tokens", "time between two tokens of a request", func(x *Inference) **Durations { return &x.BetweenTokens }},
	{"request", "time of a whole request", func(x *Inference) **Durations { return &x.Request }},
	{"queue", "time of a request in the queue", func(x *Inference) **Durations { return &x.Queue }},
	{"prefill", "time of a request's prefill", func(x *Inference) **Durations { return &x.Prefill }},
	{"decode", "time of a request's decoding", func(x *Inference) **Durations { return &x.Decode }},
}

// Durations are durations in seconds, as a histogram. Without buckets, only their number and sum
// are known.
type Durations struct {
	Count   uint64           `json:"count"`
	Sum     float64          `json:"sum"`
	Buckets []DurationBucket `json:"buckets,omitempty"` // ascending, without empty ones
}

// DurationBucket counts the durations above Over, up to UpTo, in seconds. UpTo 0: no upper bound.
type DurationBucket struct {
	Over  float64 `json:"over"`
	UpTo  float64 `json:"up_to,omitempty"`
	Count uint64  `json:"count"`
}

// Quantile estimates a quantile in seconds, evenly inside a bucket. In a bucket without an upper
// bound, the lower bound is returned. It returns false if there are no buckets.
func (d *Durations) Quantile(q float64) (seconds float64, known bool) {
	if d == nil {
		return 0, false
	}
	total := uint64(0)
	for _, b := range d.Buckets {
		total += b.Count
	}
	if total == 0 {
		return 0, false
	}
	rank := math.Max(q*float64(total), math.SmallestNonzeroFloat64)
	for i, b := range d.Buckets {
		if rank > float64(b.Count) && i < len(d.Buckets)-1 {
			rank -= float64(b.Count)
			continue
		}
		if b.UpTo <= b.Over {
			return b.Over, true
		}
		return b.Over + (b.UpTo-b.Over)*math.Min(1, rank/float64(b.Count)), true
	}
	return 0, false
}
