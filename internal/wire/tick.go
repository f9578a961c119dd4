package wire

import "time"

// Overhead is the cost of tracing: shares of the time of the traced processes.
type Overhead struct {
	Budget      float64  `json:"budget"`
	Share       float64  `json:"share"`
	Probes      float64  `json:"probes"`
	Stacks      float64  `json:"stacks"`
	Agent       float64  `json:"agent"`
	Tracepoints float64  `json:"tracepoints"`
	Shed        []string `json:"shed"` // active shedding levels
	// Floor is the minimum cost of probes, set if budget is below it, or if no level is left that
	// helps.
	Floor *Floor `json:"floor,omitempty"`
}

// Floor is the minimum cost of probes.
type Floor struct {
	Share   float64 `json:"share"`
	Rate    float64 `json:"calls_per_second"`
	ProbeNS int64   `json:"probe_ns"` // per call
}

// Tick is the state of a trace at one time: sums since it started, and the last second.
type Tick struct {
	Type       string            `json:"type"` // "tick"
	Timestamp  time.Time         `json:"timestamp"`
	Started    time.Time         `json:"started"`
	Seq        uint64            `json:"seq"`
	WindowNS   int64             `json:"window_ns"`
	Final      bool              `json:"final"`
	Records    uint64            `json:"records"`
	Lost       uint64            `json:"lost"`
	Ops        []Op              `json:"ops"`
	Processes  []Process         `json:"processes"`
	Threads    []Thread          `json:"threads"`
	Breakdowns []Breakdown       `json:"breakdowns"`
	Chains     []Chain           `json:"chains"`
	Hidden     []Hidden          `json:"hidden,omitempty"`
	Untold     []BlindSpot       `json:"untold,omitempty"`
	States     []State           `json:"states"`
	RollCalls  []RollCall        `json:"roll_calls,omitempty"`
	Launches   []Launches        `json:"launches"`
	Requests   []Request         `json:"requests,omitempty"` // to servers, that ended since the last tick
	Engines    []EngineSteps     `json:"engines,omitempty"`  // steps of the servers' engines since the last tick
	Xids       []Xid             `json:"xids,omitempty"`
	GPUs       []GPU             `json:"gpus,omitempty"`
	Libraries  []Library         `json:"libraries"`
	Pods       []Pod             `json:"pods,omitempty"`
	Reports    []Limitation      `json:"reports"`
	Drops      []Drop            `json:"drops"`
	Stacks     string            `json:"stack_policy,omitempty"`
	Self       Self              `json:"self"`
	Overhead   *Overhead         `json:"overhead,omitempty"`
	Host       Host              `json:"host"`
	HostSums   []HostSum         `json:"host_sums"`
	Inference  []InferenceServer `json:"inference,omitempty"` // reads since the last tick
}

// Library is a CUDA library with probes.
type Library struct {
	Path    string `json:"path"`
	Library string `json:"library"`
	BuildID string `json:"build_id,omitempty"`
	Probes  int    `json:"probes"`
}

// Pod is a pod of the machine that requests GPUs.
type Pod struct {
	UID       string `json:"uid"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Phase     string `json:"phase"`
	GPUs      int    `json:"gpus"`
}
