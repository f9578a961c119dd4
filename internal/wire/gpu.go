package wire

import (
	"time"

	"ingero/internal/tick"
)

// Launches has the GPU functions that a process launched, by records: launches = named +
// pending + those of unnamed. Graph launches are not included.
type Launches struct {
	PID       uint32             `json:"pid,omitempty"` // in ticks; a report has it per process
	Launches  uint64             `json:"launches"`
	Named     uint64             `json:"named"`             // of functions with known names
	Pending   uint64             `json:"pending,omitempty"` // of functions whose names are being read
	Functions int                `json:"functions"`
	Unnamed   []UnnamedLaunches  `json:"unnamed,omitempty"`
	Top       []FunctionLaunches `json:"top"` // most launches first
}

// UnnamedLaunches counts launches of functions without a known name, by reason.
type UnnamedLaunches struct {
	Why      string `json:"why"`
	Launches uint64 `json:"launches"`
}

// FunctionLaunches counts the launches of one GPU function.
type FunctionLaunches struct {
	Function string  `json:"function"`
	Symbol   string  `json:"symbol"` // linker name
	Launches uint64  `json:"launches"`
	TimeNS   *uint64 `json:"call_ns,omitempty"` // of the launching calls, if measured
}

// Xid is a fault of a GPU.
type Xid struct {
	Type      string      `json:"type"` // "xid"
	Timestamp time.Time   `json:"timestamp"`
	Code      uint32      `json:"code"`
	Switch    bool        `json:"switch,omitempty"` // an SXid, of an NVSwitch
	Name      string      `json:"name,omitempty"`
	Severity  string      `json:"severity,omitempty"`
	PCI       string      `json:"pci"`
	Instance  tick.Number `json:"gpu_instance,omitzero"` // MIG instance, if the driver names one
	Compute   tick.Number `json:"compute_instance,omitzero"`
	Msg       string      `json:"msg"`
	Via       string      `json:"via"`
	NoCode    bool        `json:"no_code,omitempty"`   // the driver gave no code
	CausedBy  uint32      `json:"caused_by,omitempty"` // code of the fault that the driver names as the cause
	Injected  bool        `json:"injected,omitempty"`  // a program wrote it to the kernel log
	Meaning   string      `json:"meaning"`
	Do        string      `json:"do"`
	SaidPID   uint32      `json:"said_pid,omitempty"` // from the message
	SaidName  string      `json:"said_name,omitempty"`
	PID       uint32      `json:"pid,omitempty"`
	Comm      string      `json:"comm,omitempty"`
	Burst     uint64      `json:"burst"`
	At        int         `json:"at"` // position in its burst; 1 is the root
	Root      uint32      `json:"root"`
	AfterNS   int64       `json:"after_ns"` // time after the root
	Last      []XidCall   `json:"last_calls,omitempty"`
}

// XidCall is one of the last calls before a fault.
type XidCall struct {
	TID        uint32 `json:"tid"`
	Op         string `json:"op"`
	BeforeNS   int64  `json:"before_ns"` // time from its start to the fault
	DurationNS int64  `json:"duration_ns,omitempty"`
	Result     *int32 `json:"result,omitempty"`
	Open       bool   `json:"open,omitempty"`
}

// GPU is the state of a GPU. Unknown values are absent.
type GPU struct {
	Timestamp    time.Time `json:"timestamp"`
	Index        *int      `json:"index,omitempty"`
	PCI          string    `json:"pci"`
	UUID         string    `json:"uuid,omitempty"`
	Name         string    `json:"name,omitempty"`
	MIG          bool      `json:"mig,omitempty"`
	Lost         bool      `json:"lost,omitempty"`
	Throttle     []string  `json:"throttle,omitempty"`
	MemTotal     *int64    `json:"mem_total_bytes,omitempty"`
	MemUsed      *int64    `json:"mem_used_bytes,omitempty"`
	Busy         *float64  `json:"busy,omitempty"` // share of the time, 0 to 1
	MemBusy      *float64  `json:"mem_busy,omitempty"`
	ClockSM      *int64    `json:"clock_sm_hz,omitempty"`
	ClockMem     *int64    `json:"clock_mem_hz,omitempty"`
	ClockSMMax   *int64    `json:"clock_sm_max_hz,omitempty"`
	Temperature  *float64  `json:"temperature_c,omitempty"`
	Power        *float64  `json:"power_w,omitempty"`
	PowerLimit   *float64  `json:"power_limit_w,omitempty"`
	ECCCorrected *int64    `json:"ecc_corrected,omitempty"`
	ECCLost      *int64    `json:"ecc_uncorrected,omitempty"`
}
