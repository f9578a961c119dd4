package wire

import "time"

// BlindSpot are causes that cannot be fully reported while a shedding level is active.
type BlindSpot struct {
	Step    string    `json:"step"`
	Without string    `json:"without"` // the missing inputs
	Rules   []string  `json:"rules"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"` // absent: the level is active
}

// Chain is a chain as JSON, with the words of the text. Estimated times have their interval.
type Chain struct {
	ID         string    `json:"id"`
	Rule       string    `json:"rule"`
	Severity   string    `json:"severity"`
	PID        uint32    `json:"pid"`
	TID        uint32    `json:"tid,omitempty"`
	Comm       string    `json:"comm,omitempty"`
	Op         string    `json:"op,omitempty"` // absent: between calls
	At         string    `json:"at,omitempty"` // in the program's code
	From       time.Time `json:"from,omitzero"`
	To         time.Time `json:"to,omitzero"`
	Headline   string    `json:"headline"`
	RootCause  string    `json:"root_cause"`
	Fix        string    `json:"fix,omitempty"`
	LostNS     int64     `json:"lost_ns"`
	LostMinNS  int64     `json:"lost_min_ns"`
	LostMaxNS  int64     `json:"lost_max_ns"`
	WindowNS   int64     `json:"window_ns"`
	ExcessNS   int64     `json:"excess_ns"`
	Steps      int       `json:"steps"`
	SlowSteps  int       `json:"slow_steps"`
	Confidence float64   `json:"confidence"`
	Baseline   string    `json:"baseline,omitempty"`
	Less       string    `json:"judged_with_less,omitempty"` // what was not seen; in baseline as well
	StepP50NS  int64     `json:"step_p50_ns,omitempty"`
	StepP99NS  int64     `json:"step_p99_ns,omitempty"`
	WithoutNS  int64     `json:"step_p99_without_ns,omitempty"`
	OpP50NS    int64     `json:"op_p50_ns,omitempty"`
	OpP99NS    int64     `json:"op_p99_ns,omitempty"`
	Culprits   []Culprit `json:"culprits"`
	Timeline   []Moment  `json:"timeline"`
	NotIt      []string  `json:"not_it"`
}

// Culprit is a process that took the time of a chain.
type Culprit struct {
	Name    string   `json:"name,omitempty"`
	PID     uint32   `json:"pid,omitempty"`
	TID     uint32   `json:"tid,omitempty"`
	PPID    uint32   `json:"ppid,omitempty"`
	Own     bool     `json:"own,omitempty"`
	Agent   bool     `json:"agent,omitempty"`
	What    string   `json:"what,omitempty"`
	Cgroup  string   `json:"cgroup,omitempty"`
	Cmdline string   `json:"cmdline,omitempty"`
	Where   string   `json:"where,omitempty"`
	Parent  string   `json:"parent,omitempty"`
	Path    string   `json:"path,omitempty"` // the threads through which the process waited for it; absent: direct wait
	CPUs    []uint16 `json:"cpus,omitempty"`
	At      string   `json:"at,omitempty"`        // place in its program while it was waited for
	Waited  string   `json:"waited_at,omitempty"` // place in the job's program where the job waited for it, if "at" is unknown
	LostNS  int64    `json:"lost_ns"`

	Limit      string `json:"limit,omitempty"` // the limit that was hit: "2 CPUs"
	LimitGroup string `json:"limit_group,omitempty"`
	LimitFile  string `json:"limit_file,omitempty"`

	GPU     string   `json:"gpu,omitempty"`     // if the culprit is a GPU that became slower: the number that nvidia-smi gives it, or its UUID
	Sharers []Sharer `json:"sharers,omitempty"` // processes that may use that GPU, too, and are not traced: the latest start first, at most 8
}

// Sharer is a process that uses CUDA and has a GPU open. Whether it computes on the GPU is unknown.
type Sharer struct {
	PID     uint32    `json:"pid"`
	Name    string    `json:"name,omitempty"`
	Cmdline string    `json:"cmdline,omitempty"`
	Where   string    `json:"where,omitempty"`
	Started time.Time `json:"started,omitzero"`
}

// Moment is an event in a chain's timeline.
type Moment struct {
	Time   time.Time `json:"time"`
	Source string    `json:"source"`
	Text   string    `json:"text"`
}

// Episode is an event in the life of a chain as a line of JSON.
type Episode struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Episode   string    `json:"episode"`
	Why       string    `json:"why,omitempty"`
	Severity  string    `json:"severity"`
	From      time.Time `json:"from,omitzero"`
	To        time.Time `json:"to,omitzero"`
	LostNS    int64     `json:"lost_ns"` // of the whole episode
	Chain     Chain     `json:"chain"`   // with the figures of the last minute
}

// Hidden is a chain that is not shown.
type Hidden struct {
	ID       string    `json:"id"`
	Rule     string    `json:"rule"`
	Severity string    `json:"severity"`
	PID      uint32    `json:"pid"`
	Culprit  string    `json:"culprit,omitempty"`
	LostNS   int64     `json:"lost_ns"`
	Why      string    `json:"why"`            // silenced, rules-off, min-severity
	What     string    `json:"what,omitempty"` // the silenced object
	Until    time.Time `json:"until,omitzero"` // end of the silence
	Reason   string    `json:"reason,omitempty"`
}

// Chains are a report's causes, with the context needed to read them.
type Chains struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Node   string    `json:"node"`
	Chains []Chain   `json:"chains"`
	Hidden []Hidden  `json:"hidden,omitempty"`
	Notes  []string  `json:"notes"`
}

// Notice is the message that a webhook receives.
type Notice struct {
	Text string `json:"text"` // the event in a sentence
	Node string `json:"node"`
	Episode
}
