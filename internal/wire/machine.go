package wire

// Machine is another machine, with its findings. If it did not answer, it has the address and the
// error.
type Machine struct {
	Address  string        `json:"address"`
	Name     string        `json:"name"`
	Version  string        `json:"version,omitempty"`
	AheadNS  int64         `json:"ahead_ns"` // clock offset; negative: behind
	WithinNS int64         `json:"within_ns"`
	Chains   int           `json:"chains"`
	Gravest  *ChainSummary `json:"gravest"` // the most expensive cause; null: nothing was found
	Faults   int           `json:"faults"`  // GPU faults
	Error    string        `json:"error,omitempty"`
	Do       string        `json:"do,omitempty"`
}

// ChainSummary summarizes a cause of lost time.
type ChainSummary struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	PID      uint32 `json:"pid"`
	Comm     string `json:"comm"`
	Headline string `json:"headline"`
	LostNS   int64  `json:"lost_ns"`
}

// Machines is the answer of /api/v1/fleet.
type Machines struct {
	Scope
	Machines []Machine `json:"machines"`
	Notes    []string  `json:"notes"`
}
