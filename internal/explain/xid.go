package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/xid"
)

// xidJSON is a fault of a GPU.
type xidJSON struct {
	Type      string        `json:"type"` // "xid"
	Timestamp time.Time     `json:"timestamp"`
	Code      uint32        `json:"code"`
	Switch    bool          `json:"switch,omitempty"` // an SXid, of an NVSwitch
	Name      string        `json:"name,omitempty"`
	Severity  string        `json:"severity,omitempty"`
	PCI       string        `json:"pci"`
	Instance  tick.Number   `json:"gpu_instance,omitzero"` // MIG instance, if the driver names one
	Compute   tick.Number   `json:"compute_instance,omitzero"`
	Msg       string        `json:"msg"`
	Via       string        `json:"via"`
	NoCode    bool          `json:"no_code,omitempty"`   // the driver gave no code
	CausedBy  uint32        `json:"caused_by,omitempty"` // code of the fault that the driver names as the cause
	Injected  bool          `json:"injected,omitempty"`  // a program wrote it to the kernel log
	Meaning   string        `json:"meaning"`
	Do        string        `json:"do"`
	SaidPID   uint32        `json:"said_pid,omitempty"` // from the message
	SaidName  string        `json:"said_name,omitempty"`
	PID       uint32        `json:"pid,omitempty"`
	Comm      string        `json:"comm,omitempty"`
	Burst     uint64        `json:"burst"`
	At        int           `json:"at"` // position in its burst; 1 is the root
	Root      uint32        `json:"root"`
	AfterNS   int64         `json:"after_ns"` // time after the root
	Last      []xidCallJSON `json:"last_calls,omitempty"`
}

type xidCallJSON struct {
	TID        uint32 `json:"tid"`
	Op         string `json:"op"`
	BeforeNS   int64  `json:"before_ns"` // time from its start to the fault
	DurationNS int64  `json:"duration_ns,omitempty"`
	Result     *int32 `json:"result,omitempty"`
	Open       bool   `json:"open,omitempty"`
}

func xidOf(x *tick.Xid) xidJSON {
	c := xid.LookupFault(x)
	j := xidJSON{Type: "xid", Timestamp: time.Unix(0, x.Time).UTC(), Code: x.Code, Switch: x.Switch, Name: c.Name, Severity: c.Severity, PCI: x.Bus, Instance: x.GPUInstance, Compute: x.ComputeInstance, NoCode: x.NoCode, CausedBy: x.CausedBy,
		Msg: clean(x.Msg), Via: x.Via.String(), Injected: x.Injected, Meaning: c.Meaning, Do: c.Do, SaidPID: x.SaidPID, SaidName: clean(x.SaidName),
		PID: x.PID, Comm: clean(x.Comm), Burst: x.Burst, At: x.At, Root: x.Root, AfterNS: int64(x.After)}
	for i := range x.Last {
		l := &x.Last[i]
		k := xidCallJSON{TID: l.TID, Op: l.Op.String(), BeforeNS: int64(l.Before), DurationNS: int64(l.Duration), Open: l.Open}
		if l.Duration > 0 {
			k.Result = &l.Result
		}
		j.Last = append(j.Last, k)
	}
	return j
}

// XidJSON returns a fault as one line of JSON, without the newline. Its type is "xid"; unknown
// values are absent.
func XidJSON(x *tick.Xid) ([]byte, error) { return json.Marshal(xidOf(x)) }

// XidText formats a fault as lines of text. detail adds the meaning of the code and the remedy.
func XidText(x *tick.Xid, detail bool, zone *time.Location) string {
	var b strings.Builder
	kind := "XID"
	if x.Switch {
		kind = "SXID"
	}
	fmt.Fprintf(&b, "%s event received: code=%d pci=%s msg=%s\n", kind, x.Code, x.Device(), clean(x.Msg))
	c := xid.LookupFault(x)
	facts := []string{time.Unix(0, x.Time).In(zone).Format("15:04:05.000000")}
	switch {
	case x.CausedBy != 0:
		facts = append(facts, fmt.Sprintf("caused by %d, according to the driver", x.CausedBy))
	case x.At == 1:
		facts = append(facts, "the first of its burst")
	case x.At > 1:
		facts = append(facts, fmt.Sprintf("%s after %d, the root of its burst", Duration(int64(x.After)), x.Root))
	}
	for _, s := range []string{c.Severity, c.Name} {
		if s != "" {
			facts = append(facts, s)
		}
	}
	if x.NoCode {
		facts = append(facts, "the driver gave no code")
	}
	if x.Injected {
		facts = append(facts, "written to the kernel log by a program, not by the driver")
	}
	lines := []string{strings.Join(facts, " · ")}
	if detail {
		lines = append(lines, c.Meaning, "Do: "+c.Do)
	}
	if s := xidWho(x); s != "" {
		lines = append(lines, s)
	}
	for _, line := range append(lines, xidCalls(x)...) {
		for _, l := range Wrap(line, 80-4) {
			fmt.Fprintf(&b, "    %s\n", l)
		}
	}
	return b.String()
}

// xidWho names the process that a fault hit.
func xidWho(x *tick.Xid) string {
	switch {
	case x.SaidPID == 0:
		return ""
	case x.PID == 0:
		name := clean(x.SaidName)
		if name == "" {
			name = "process"
		}
		return fmt.Sprintf("Hit %s: the process has exited, or its PID is ambiguous", processName(name, x.SaidPID))
	case x.PID != x.SaidPID:
		return fmt.Sprintf("Hit %s, which is %d in its container", processName(clean(x.Comm), x.PID), x.SaidPID)
	}
	return "Hit " + processName(clean(x.Comm), x.PID)
}

// xidCalls lists the last calls of that process.
func xidCalls(x *tick.Xid) []string {
	var out []string
	for i := range x.Last {
		l := &x.Last[i]
		s := fmt.Sprintf("%s before: %s in thread %d", Duration(int64(l.Before)), l.Op, l.TID)
		switch {
		case l.Open:
			s += ", which has not returned"
		case l.Duration > 0 && l.Result != 0:
			s += fmt.Sprintf(", which failed with %d after %s", l.Result, Duration(int64(l.Duration)))
		case l.Duration > 0:
			s += ", which took " + Duration(int64(l.Duration))
		}
		out = append(out, s)
	}
	return out
}

// gpuJSON is the state of a GPU. Unknown values are absent.
type gpuJSON struct {
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

func gpuOf(g *tick.GPU) gpuJSON {
	var index *int
	if g.Index >= 0 {
		index = &g.Index
	}
	return gpuJSON{Timestamp: g.Time.UTC(), Index: index, PCI: g.Bus, UUID: clean(g.UUID), Name: clean(g.Name), MIG: g.MIG, Lost: g.Lost, Throttle: g.Throttle,
		MemTotal: g.MemTotal, MemUsed: g.MemUsed, Busy: g.Busy, MemBusy: g.MemBusy, ClockSM: g.ClockSM, ClockMem: g.ClockMem, ClockSMMax: g.ClockSMMax,
		Temperature: g.Temperature, Power: g.Power, PowerLimit: g.PowerLimit, ECCCorrected: g.ECCCorrected, ECCLost: g.ECCLost}
}
