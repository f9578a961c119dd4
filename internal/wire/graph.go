package wire

// GraphRate is how often a graph operation was called, and its duration.
type GraphRate struct {
	Op        string  `json:"op"`
	Calls     uint64  `json:"calls"`
	PerSecond float64 `json:"per_second"`
	Errors    uint64  `json:"errors"`
	TotalNS   uint64  `json:"total_ns"`
	P50NS     *int64  `json:"p50_ns"` // null: unknown
	P99NS     *int64  `json:"p99_ns"`
	MaxNS     *int64  `json:"max_ns"`
}

// GraphMetrics is the answer of /api/v1/graph-metrics.
type GraphMetrics struct {
	Scope
	Seconds float64     `json:"seconds"`
	Ops     []GraphRate `json:"operations"`
	Columns []string    `json:"graph_columns"`
	Graphs  []Row       `json:"graphs"` // most launches first
	Notes   []string    `json:"notes"`
}

// GraphEvents is the answer of /api/v1/graph-events. C is [CallLine], or [json.RawMessage] where the
// calls are encoded already.
type GraphEvents[C any] struct {
	Scope
	Of     int      `json:"of"`     // total number
	Events []C      `json:"events"` // latest first
	Notes  []string `json:"notes"`
}
