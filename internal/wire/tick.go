package wire

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
