package tick

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"ingero/pkg/events"
)

// XidVia is the source of a fault report.
type XidVia uint8

// The sources.
const (
	ViaTracepoint XidVia = iota + 1
	ViaKernelLog
)

var viaNames = [...]string{"", "tracepoint", "kernel-log"}

// String returns "tracepoint" or "kernel-log".
func (v XidVia) String() string {
	if int(v) < len(viaNames) {
		return viaNames[v]
	}
	return ""
}

// ViaOf is the inverse of String. It returns 0 for an unknown name.
func ViaOf(s string) XidVia {
	for v, name := range viaNames {
		if name == s {
			return XidVia(v)
		}
	}
	return 0
}

// Xid is one fault reported by the NVIDIA driver: an Xid of a GPU, or an SXid of an NVSwitch.
type Xid struct {
	Time   int64 // Unix ns
	Code   uint32
	Switch bool   // an SXid, with its own list of codes
	Bus    string // PCI address without the function: "0000:75:00"
	// GPUInstance and ComputeInstance are the MIG instances of the fault, as nvidia-smi numbers
	// them; unknown if the driver names none.
	GPUInstance, ComputeInstance Number
	Msg                          string // message of the driver, without code and address
	Via                          XidVia
	// NoCode means that the driver reported a lost GPU without a code: Code is then 79.
	NoCode bool
	// CausedBy is the code of the fault that the driver names as the cause of this one, or 0.
	CausedBy uint32
	// Injected means that a program, not the driver, wrote it to the kernel log.
	Injected bool

	// SaidPID and SaidName are the process that the message names, 0 and "" for none. PID is that
	// process in the root PID namespace, 0 if unknown, and Comm its name.
	SaidPID  uint32
	SaidName string
	PID      uint32
	Comm     string

	// Faults of one device in quick succession are a burst. Burst numbers the bursts of a session,
	// from 1. At is the position in the burst; 1 is the root, and the others follow from it. After
	// is the time since the root.
	Burst uint64
	At    int
	Root  uint32 // the root's code
	After time.Duration

	// Last are the last calls of process PID that began before the fault: calls that had not
	// returned first, then the latest first. They exist only for traced processes, and only with
	// the first of the faults that hit a process in about a second.
	Last []XidCall
}

// XidCall is one of the last calls of a process that a fault hit.
type XidCall struct {
	TID      uint32        `json:"tid"`
	Op       events.Op     `json:"op"`
	Before   time.Duration `json:"before_ns"`             // time from its start to the fault
	Duration time.Duration `json:"duration_ns,omitempty"` // 0: unknown
	Result   int32         `json:"result,omitempty"`      // of a call that has returned and is measured
	Open     bool          `json:"open,omitempty"`        // not returned by the end of the tick
}

// causedBy is what the driver appends to the message of a fault that follows from another.
const causedBy = "caused by previous Xid "

// GPU is the state of one GPU. Unknown values are nil: absent, not zero.
type GPU struct {
	Time  time.Time // time of the state
	Index int       // as nvidia-smi numbers it; -1: unknown
	Bus   string    // "0000:75:00.0"
	UUID  string
	Name  string // "NVIDIA H200"
	MIG   bool   // divided into instances, without a utilization of its own
	Lost  bool   // does not respond: reset it, or reboot
	// Throttle are the reasons why its clocks are reduced: "idle", "power cap", ...
	Throttle []string

	MemTotal, MemUsed     *int64   // bytes
	Busy, MemBusy         *float64 // share of the time, 0 to 1
	ClockSM, ClockMem     *int64   // Hz
	ClockSMMax            *int64   // Hz
	Temperature           *float64 // degrees Celsius
	Power, PowerLimit     *float64 // W
	ECCCorrected, ECCLost *int64   // errors since the driver was loaded; ECCLost: uncorrected
}

// Device returns the usual name of the device that reported the fault: "0000:75:00", "0000:75:00
// GPU-I:05 GPU-CI:01".
func (x *Xid) Device() string {
	s := x.Bus
	for _, i := range [...]struct {
		name string
		n    Number
	}{{"GPU-I", x.GPUInstance}, {"GPU-CI", x.ComputeInstance}} {
		if n, known := i.n.Value(); known {
			s += fmt.Sprintf(" %s:%02d", i.name, n)
		}
	}
	return s
}

// SetMessage sets the message, the process that it names, and the fault that caused this one:
//
//	pid=1234, name=python3, Ch 00000008
//	pid='<unknown>', name=<unknown>, Ch 0000001a
//	pid=1234, name=python3, Ch 00000001 caused by previous Xid 149
func (x *Xid) SetMessage(msg string) {
	x.Msg = strings.TrimSpace(msg)
	if at := strings.LastIndex(x.Msg, causedBy); at >= 0 {
		if n, err := strconv.ParseUint(x.Msg[at+len(causedBy):], 10, 32); err == nil {
			x.CausedBy = uint32(n)
		}
	}
	for part := range strings.SplitSeq(x.Msg, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		value = strings.Trim(value, "'")
		switch {
		case !ok || strings.HasPrefix(value, "<"): // unknown
		case key == "pid":
			if n, err := strconv.ParseUint(value, 10, 32); err == nil && x.SaidPID == 0 {
				x.SaidPID = uint32(n)
			}
		case key == "name" && x.SaidName == "":
			x.SaidName = value
		}
	}
}
