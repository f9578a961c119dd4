package wire

import "time"

// InferenceServer is what an inference server reports of itself: its state at the last read, and
// what happened over the covered time. Absent values are unknown.
type InferenceServer struct {
	PID    uint32    `json:"pid"`
	Engine string    `json:"engine,omitempty"`
	Model  string    `json:"model,omitempty"`
	URL    string    `json:"url"` // of the metrics, in the server's network namespace
	Time   time.Time `json:"time"`
	Why    string    `json:"why,omitempty"` // why the last read failed
	Do     string    `json:"do,omitempty"`  // remedy

	Running *float64 `json:"running,omitempty"` // requests
	Waiting *float64 `json:"waiting,omitempty"`
	KVCache *float64 `json:"kv_cache,omitempty"` // share in use, 0 to 1

	CoveredNS       int64    `json:"covered_ns,omitempty"`
	Preemptions     *float64 `json:"preemptions,omitempty"`
	PromptTokens    *float64 `json:"prompt_tokens,omitempty"`
	GeneratedTokens *float64 `json:"generated_tokens,omitempty"`

	FirstToken    *InferenceTimes `json:"first_token,omitempty"`
	BetweenTokens *InferenceTimes `json:"between_tokens,omitempty"`
	Request       *InferenceTimes `json:"request,omitempty"`
	Queue         *InferenceTimes `json:"queue,omitempty"`
	Prefill       *InferenceTimes `json:"prefill,omitempty"`
	Decode        *InferenceTimes `json:"decode,omitempty"`
}

// InferenceTimes are durations in seconds. Quantiles are estimates from a histogram.
type InferenceTimes struct {
	Count uint64   `json:"count"`
	Sum   float64  `json:"sum_s"`
	P50   *float64 `json:"p50_s,omitempty"`
	P99   *float64 `json:"p99_s,omitempty"`
}
