package xid

import (
	"fmt"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// Parse reads a line of the kernel's log, without what the log puts before it. ok
// says that it is a fault:
//
//	NVRM: Xid (PCI:0000:75:00): 13, pid=1234, name=python3, Graphics Exception
//	NVRM: Xid (0000:03:00): 31, Ch 00000001
//	nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
func Parse(line string) (x tick.Xid, ok bool) {
	rest, ok := strings.CutPrefix(line, "NVRM: Xid (")
	if !ok {
		who, after, found := strings.Cut(line, ": SXid (")
		number, isSwitch := strings.CutPrefix(who, "nvidia-nvswitch")
		if _, err := strconv.ParseUint(number, 10, 16); !found || !isSwitch || err != nil {
			return x, false
		}
		rest, x.Switch = after, true
	}
	bus, rest, ok := strings.Cut(rest, "): ")
	if !ok {
		return x, false
	}
	if x.Bus = Bus(strings.TrimPrefix(bus, "PCI:")); x.Bus == "" {
		return x, false
	}
	code, msg, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(strings.TrimSpace(code), 10, 32)
	if err != nil {
		return x, false
	}
	x.Code = uint32(n)
	x.Say(msg)
	return x, true
}

// Bus gives a PCI address the form that faults have, "0000:75:00", and returns "" for
// what is no address.
func Bus(s string) string {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return ""
	}
	parts[2], _, _ = strings.Cut(parts[2], ".")
	var n [3]uint64
	for i, bits := range [...]int{32, 8, 8} {
		v, err := strconv.ParseUint(parts[i], 16, bits)
		if err != nil {
			return ""
		}
		n[i] = v
	}
	return fmt.Sprintf("%04x:%02x:%02x", n[0], n[1], n[2])
}
