package wire

import (
	"strconv"
	"time"
)

// HeatOp is the durations of one operation's calls over time.
type HeatOp struct {
	Op      string     `json:"op"`
	Source  string     `json:"source"`
	Calls   uint64     `json:"calls"`
	TotalNS uint64     `json:"total_ns"`
	P50NS   Known      `json:"p50_ns"` // null: none was timed
	P99NS   Known      `json:"p99_ns"`
	MaxNS   Known      `json:"max_ns"`
	LowNS   []uint64   `json:"low_ns"` // edges of the rows of latency, one more than rows
	Cells   [][3]int64 `json:"cells"`  // time bucket, latency row, calls; no empty ones
}

// Heatmap is the answer of /api/v1/heatmap.
type Heatmap struct {
	Scope
	Scale
	Names []string `json:"op_names"` // all operations, most time first
	Ops   []HeatOp `json:"ops"`
	Notes []string `json:"notes"`
}

// MemoryLine is the memory that a process held: the maximum of each bucket.
type MemoryLine struct {
	PID     uint32  `json:"pid"`
	Comm    string  `json:"comm"`
	Node    string  `json:"node"`
	Session string  `json:"session"`
	GPU     []Known `json:"gpu_bytes"`
	Host    []Known `json:"host_bytes"` // pinned and registered
	Peak    int64   `json:"peak_bytes"` // GPU memory, in the window
	Exact   bool    `json:"exact"`
}

// MemoryLines is the answer of /api/v1/memory.
type MemoryLines struct {
	Scope
	At    []Millis      `json:"at_ms"` // starts of buckets
	Procs []*MemoryLine `json:"processes"`
	More  int           `json:"more"`
	Notes []string      `json:"notes"`
}

// GPULine is a GPU's state over time. Unknown values are null.
type GPULine struct {
	Bus         string     `json:"bus"`
	UUID        string     `json:"uuid"`
	Name        string     `json:"name"`
	Node        string     `json:"node"`
	MemTotal    *int64     `json:"mem_total_bytes"`
	At          []Millis   `json:"at_ms"`
	Busy        []*float64 `json:"busy"` // 0 to 1
	MemUsed     []*int64   `json:"mem_used_bytes"`
	ClockSM     []*int64   `json:"clock_sm_hz"`
	ClockMem    []*int64   `json:"clock_mem_hz"`
	Temperature []*float64 `json:"temperature_c"`
	Power       []*float64 `json:"power_w"`
	PowerLimit  []*float64 `json:"power_limit_w"`
	Throttle    []string   `json:"throttle"`
	ECC         []*int64   `json:"ecc_uncorrected"`
	Lost        []bool     `json:"lost"`
}

// RecordedXid is a GPU fault.
type RecordedXid struct {
	At       Millis `json:"at_ms"`
	Bus      string `json:"bus"`
	Code     uint32 `json:"code"`
	Switch   bool   `json:"switch,omitempty"` // an NVSwitch's
	Name     string `json:"name"`
	Severity string `json:"severity"`
	Burst    uint64 `json:"burst"`
	Root     uint32 `json:"root"`
	PID      uint32 `json:"pid,omitempty"`
	Comm     string `json:"comm,omitempty"`
	Via      string `json:"via"`
	Msg      string `json:"msg"`
}

// GPULines is the answer of /api/v1/gpus.
type GPULines struct {
	Scope
	GPUs  []*GPULine    `json:"gpus"`
	Xids  []RecordedXid `json:"xids"`
	More  int           `json:"more_xids"` // earlier ones, omitted
	Notes []string      `json:"notes"`
}

// Scope is the start of an answer: its scope.
type Scope struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Node string    `json:"node"`
}

// Scale describes an answer's buckets.
type Scale struct {
	StartMS  Millis  `json:"start_ms"`
	BucketMS float64 `json:"bucket_ms"`
	Buckets  int     `json:"buckets"`
}

// Millis is a time in Unix nanoseconds; as JSON it is milliseconds, with a fraction.
type Millis int64

// Known is a number that is null if unknown, which a negative value means.
type Known int64

// TimelineRow is where the time of a process (all threads) or of one thread went, by bucket. In each
// bucket the series add up to the time of its threads.
type TimelineRow struct {
	PID       uint32   `json:"pid"`
	TID       uint32   `json:"tid"`            // 0: all threads, or the rest
	Rest      bool     `json:"rest,omitempty"` // the threads without a row of their own
	Comm      string   `json:"comm"`
	Node      string   `json:"node"`
	Session   string   `json:"session"`
	ElapsedNS uint64   `json:"elapsed_ns"`
	Series    []Series `json:"series"`
}

// Series is a part of the time.
type Series struct {
	Kind string  `json:"kind"`
	Name string  `json:"name"` // program on the CPU, or the wait; "": unknown, or the small ones
	NS   []Known `json:"ns"`
}

// Timeline is the answer of /api/v1/timeline.
type Timeline struct {
	Scope
	Scale
	Resolution string        `json:"resolution"` // of the recorded data
	Rows       []TimelineRow `json:"rows"`
	More       int           `json:"more"` // omitted rows
	Notes      []string      `json:"notes"`
}

// MarshalJSON encodes the time.
func (m Millis) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt(nil, int64(m)/1e6, 10)
	if rest := int64(m) % 1e6; rest > 0 {
		text := strconv.FormatInt(1e6+rest, 10)
		b = append(append(b, '.'), text[1:]...)
	}
	return b, nil
}

// MarshalJSON encodes the number.
func (k Known) MarshalJSON() ([]byte, error) {
	if k < 0 {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(k), 10), nil
}
