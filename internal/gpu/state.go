package gpu

import (
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// field is a value to request from nvidia-smi.
type field struct {
	name  string
	older string // its name in older drivers
	set   func(g *tick.GPU, value string)
}

// fields are requested in this order. The name of the GPU is last, since only it may contain a
// comma. A value of "[N/A]" is not set.
var fields = []field{
	{name: "pci.bus_id", set: func(g *tick.GPU, v string) { g.Bus = normalBus(v) }},
	{name: "index", set: func(g *tick.GPU, v string) {
		if n, err := strconv.ParseUint(v, 10, 16); err == nil {
			g.Index = int(n)
		}
	}},
	{name: "uuid", set: func(g *tick.GPU, v string) { g.UUID = v }},
	{name: "mig.mode.current", set: func(g *tick.GPU, v string) { g.MIG = v == "Enabled" }},
	{name: "memory.total", set: func(g *tick.GPU, v string) { setInt(&g.MemTotal, v, 1<<20) }},
	{name: "memory.used", set: func(g *tick.GPU, v string) { setInt(&g.MemUsed, v, 1<<20) }},
	{name: "utilization.gpu", set: func(g *tick.GPU, v string) { share(&g.Busy, v) }},
	{name: "utilization.memory", set: func(g *tick.GPU, v string) { share(&g.MemBusy, v) }},
	{name: "clocks.sm", set: func(g *tick.GPU, v string) { setInt(&g.ClockSM, v, 1e6) }},
	{name: "clocks.mem", set: func(g *tick.GPU, v string) { setInt(&g.ClockMem, v, 1e6) }},
	{name: "clocks.max.sm", set: func(g *tick.GPU, v string) { setInt(&g.ClockSMMax, v, 1e6) }},
	{name: "temperature.gpu", set: func(g *tick.GPU, v string) { number(&g.Temperature, v) }},
	{name: "power.draw", set: func(g *tick.GPU, v string) { number(&g.Power, v) }},
	{name: "power.limit", set: func(g *tick.GPU, v string) { number(&g.PowerLimit, v) }},
	{name: "clocks_event_reasons.active", older: "clocks_throttle_reasons.active", set: func(g *tick.GPU, v string) { g.Throttle = reasons(v) }},
	{name: "ecc.errors.corrected.volatile.total", set: func(g *tick.GPU, v string) { setInt(&g.ECCCorrected, v, 1) }},
	{name: "ecc.errors.uncorrected.volatile.total", set: func(g *tick.GPU, v string) { setInt(&g.ECCLost, v, 1) }},
	{name: "name", set: func(g *tick.GPU, v string) { g.Name = v }},
}

// fields returns the names of the fields that this nvidia-smi is not known to lack.
func (p *Poll) fields() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, f := range fields {
		switch {
		case !p.lack[f.name]:
			out = append(out, f.name)
		case f.older != "" && !p.lack[f.older]:
			out = append(out, f.older)
		}
	}
	return out
}

// parseState parses a line of the values of the named fields.
func parseState(names []string, line string) (tick.GPU, bool) {
	g := tick.GPU{Index: -1}
	values := strings.SplitN(strings.TrimSpace(line), ", ", len(names))
	if len(values) != len(names) {
		return g, false
	}
	for i, value := range values {
		if v := strings.ToLower(value); strings.Contains(v, "gpu is lost") || strings.Contains(v, "fallen off") {
			g.Lost = true
		}
		if value = known(value); value == "" {
			continue
		}
		for _, f := range fields {
			if f.name == names[i] || f.older == names[i] {
				f.set(&g, value)
			}
		}
	}
	return g, g.Bus != ""
}

// setInt sets an integer in the given unit, unless the value is no number.
func setInt(to **int64, value string, unit int64) {
	if n, err := strconv.ParseUint(value, 10, 40); err == nil {
		v := int64(n) * unit
		*to = &v
	}
}

// number sets a decimal number.
func number(to **float64, value string) {
	if n, err := strconv.ParseFloat(value, 64); err == nil && n >= 0 && n < 1e6 {
		*to = &n
	}
}

// share parses a percentage.
func share(to **float64, value string) {
	if n, err := strconv.ParseUint(value, 10, 7); err == nil && n <= 100 {
		v := float64(n) / 100
		*to = &v
	}
}

// throttles has the reasons for low clocks (nvml.h, nvmlClocksEventReason...), by bit.
var throttles = []string{
	"idle", "application clocks", "software power cap", "hardware slowdown", "sync boost",
	"software thermal slowdown", "hardware thermal slowdown", "hardware power brake", "display clocks",
}

// reasons parses a bit mask such as 0x0000000000000004. Unknown bits are shown as numbers.
func reasons(mask string) []string {
	bits, err := strconv.ParseUint(strings.TrimPrefix(mask, "0x"), 16, 64)
	if err != nil {
		return nil
	}
	var out []string
	for i := range 64 {
		switch {
		case bits&(1<<i) == 0:
		case i < len(throttles):
			out = append(out, throttles[i])
		default:
			out = append(out, "0x"+strconv.FormatUint(1<<i, 16))
		}
	}
	return out
}
