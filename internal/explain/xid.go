package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/internal/xid"
)

func xidOf(x *tick.Xid) wire.Xid {
	c := xid.LookupFault(x)
	j := wire.Xid{Type: "xid", Timestamp: time.Unix(0, x.Time).UTC(), Code: x.Code, Switch: x.Switch, Name: c.Name, Severity: c.Severity, PCI: x.Bus, Instance: x.GPUInstance, Compute: x.ComputeInstance, NoCode: x.NoCode, CausedBy: x.CausedBy,
		Msg: clean(x.Msg), Via: x.Via.String(), Injected: x.Injected, Meaning: c.Meaning, Do: c.Do, SaidPID: x.SaidPID, SaidName: clean(x.SaidName),
		PID: x.PID, Comm: clean(x.Comm), Burst: x.Burst, At: x.At, Root: x.Root, AfterNS: int64(x.After)}
	for i := range x.Last {
		l := &x.Last[i]
		k := wire.XidCall{TID: l.TID, Op: l.Op.String(), BeforeNS: int64(l.Before), DurationNS: int64(l.Duration), Open: l.Open}
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

func gpuOf(g *tick.GPU) wire.GPU {
	var index *int
	if g.Index >= 0 {
		index = &g.Index
	}
	return wire.GPU{Timestamp: g.Time.UTC(), Index: index, PCI: g.Bus, UUID: clean(g.UUID), Name: clean(g.Name), MIG: g.MIG, Lost: g.Lost, Throttle: g.Throttle,
		MemTotal: g.MemTotal, MemUsed: g.MemUsed, Busy: g.Busy, MemBusy: g.MemBusy, ClockSM: g.ClockSM, ClockMem: g.ClockMem, ClockSMMax: g.ClockSMMax,
		Temperature: g.Temperature, Power: g.Power, PowerLimit: g.PowerLimit, ECCCorrected: g.ECCCorrected, ECCLost: g.ECCLost}
}
