package wire

// Progress describes how far the database goes.
type Progress struct {
	Node      string `json:"node,omitempty"`
	Version   string `json:"version,omitempty"`
	Recording bool   `json:"recording"`
	Session   string `json:"session"`
	To        Millis `json:"to_ms"`
	Records   uint64 `json:"records"`
}

// ChainChange describes a change of a cause.
type ChainChange struct {
	ID       string `json:"id"`
	Change   string `json:"change"` // appeared, changed, ended
	Severity string `json:"severity"`
	Rule     string `json:"rule"`
	PID      uint32 `json:"pid"`
	Comm     string `json:"comm"`
	Op       string `json:"op"`
	LostNS   int64  `json:"lost_ns"`
	From     Millis `json:"from_ms"`
	To       Millis `json:"to_ms"`
}
