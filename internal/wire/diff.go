package wire

import "time"

// Diff has the differences between two runs. Times are nanoseconds; values of effects are per
// step.
type Diff struct {
	A     DiffRun    `json:"a"`
	B     DiffRun    `json:"b"`
	Pairs []DiffPair `json:"pairs"`
	OnlyA []string   `json:"only_in_a"`
	OnlyB []string   `json:"only_in_b"`
}

// DiffRun is one of the compared runs.
type DiffRun struct {
	Path    string    `json:"path"`
	Session string    `json:"session"`
	Node    string    `json:"node"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Notes   []string  `json:"notes"`
}

// DiffPair compares the processes with one role in both runs.
type DiffPair struct {
	Role     string       `json:"role"`
	RoleB    string       `json:"role_b,omitempty"` // if the name differs in run B
	Program  string       `json:"program"`
	Rank     string       `json:"rank,omitempty"`
	Anchor   string       `json:"step_of,omitempty"` // the operation whose calls are the steps
	Short    bool         `json:"too_short"`
	A        DiffSide     `json:"a"`
	B        DiffSide     `json:"b"`
	Findings int          `json:"findings"`
	Step     *Effect      `json:"step,omitempty"`
	Parts    []Effect     `json:"parts"`
	Within   []Effect     `json:"within"`
	Counts   []Effect     `json:"calls_by_step"`
	Ops      []CallChange `json:"ops"`
}

// DiffSide is what one run has of a pair.
type DiffSide struct {
	PIDs     []uint32  `json:"pids"`
	From     time.Time `json:"from,omitzero"`
	To       time.Time `json:"to,omitzero"`
	Steps    uint64    `json:"steps"`
	Threads  int       `json:"threads"`
	WarmNS   int64     `json:"warm_up_ns"`
	StallsNS int64     `json:"stalls_ns"`
}

// Effect is the difference of one value.
type Effect struct {
	Name     string   `json:"name"`
	Part     string   `json:"part,omitempty"`
	Op       string   `json:"op,omitempty"`
	Line     string   `json:"line,omitempty"`
	A        float64  `json:"a"`
	B        float64  `json:"b"`
	Delta    float64  `json:"delta"`
	Relative *float64 `json:"relative,omitempty"` // delta relative to a; for parts, relative to the step
	Low      *float64 `json:"low,omitempty"`      // 95 % confidence bounds of delta
	High     *float64 `json:"high,omitempty"`
	P        float64  `json:"p"`
	Margin   float64  `json:"margin"`
	Found    bool     `json:"found"`
}

// CallChange compares one operation's calls.
type CallChange struct {
	Op    string   `json:"op"`
	A     CallSums `json:"a"`
	B     CallSums `json:"b"`
	Found int      `json:"findings"`
}

// CallSums are an operation's calls in one run.
type CallSums struct {
	Calls  uint64  `json:"calls"`
	ByStep float64 `json:"calls_by_step"`
	TimeNS float64 `json:"ns_by_step"`
	P50NS  int64   `json:"p50_ns,omitempty"`
	P99NS  int64   `json:"p99_ns,omitempty"`
}
