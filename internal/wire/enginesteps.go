package wire

// EngineSteps are the steps of an inference server's engine. A step begins when the thread's last
// wait for the GPU returns and ends with the next one.
type EngineSteps struct {
	PID    uint32      `json:"pid"`
	TID    uint32      `json:"tid"`
	Comm   string      `json:"comm,omitempty"`
	IdleNS int64       `json:"idle_ns"` // the engine waited for work before the steps
	Kinds  []StepsKind `json:"kinds"`
}

// StepsKind sums up the steps of one kind and graph. The last five times add up to their time after
// the wait for work.
type StepsKind struct {
	Kind  string `json:"kind"`            // "tokens", "prompts", "capture", or "prompts or tokens": nothing tells them apart
	Graph string `json:"graph,omitempty"` // handle of the first graph launched in them; absent: none, unknown, or one of too many
	// Requests is the mean number of requests that had a token computed in a step, by the requests
	// that have ended; absent: unknown.
	Requests   *float64  `json:"mean_requests,omitempty"`
	Took       Durations `json:"took"`
	GPUNS      int64     `json:"gpu_ns"` // waiting for the GPU
	CPUNS      int64     `json:"cpu_ns"`
	RunnableNS int64     `json:"runnable_ns"` // waiting for a CPU
	BlockedNS  int64     `json:"blocked_ns"`  // waiting for something else
	UnknownNS  int64     `json:"unknown_ns"`
}
