package xid

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// OffTheBus is the code of a GPU that no longer responds.
const OffTheBus = 79

// heads are the beginnings of the driver's fault messages. They match the address and the rest.
var heads = []struct {
	isSwitch bool
	head     *regexp.Regexp
}{
	{false, regexp.MustCompile(`^NVRM: +Xid *\(([^()]*)\) *:(.*)$`)},
	{true, regexp.MustCompile(`^nvidia-nvswitch[0-9]{1,5}: +SXid *\(([^()]*)\) *:(.*)$`)},
}

// losses are the driver's messages of a lost GPU without a code. They match the address and the
// driver's words. The second form has several lines.
var losses = []*regexp.Regexp{
	regexp.MustCompile(`^NVRM: +GPU (?:at )?(?:PCI:)?([0-9a-fA-F:.]+?):? +((?:GPU )?has fallen off the bus.*)$`),
	regexp.MustCompile(`^NVRM: +The NVIDIA GPU (?:at )?(?:PCI:)?([0-9a-fA-F:.]+?):? +((?:\(PCI ID: *[^()]*\) *)?installed in this system has fallen off the bus.*)$`),
}

// Parse parses a message of the kernel's log, without the log's prefix. ok reports whether it is a
// fault:
//
//	NVRM: Xid (PCI:0000:75:00): 13, pid=1234, name=python3, Graphics Exception
//	NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 94, pid=7194, name=python3, Contained
//	NVRM: Xid (0000:03:00): 31, Ch 00000001
//	nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
//	NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.
func Parse(text string) (x tick.Xid, ok bool) {
	for _, h := range heads {
		m := h.head.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		code, msg, _ := strings.Cut(m[2], ",")
		n, err := strconv.ParseUint(strings.TrimSpace(code), 10, 32)
		if err != nil || !address(m[1], &x) {
			return tick.Xid{}, false
		}
		x.Code, x.Switch = uint32(n), h.isSwitch
		x.SetMessage(msg)
		return x, true
	}
	flat := oneLine(text)
	for _, l := range losses {
		if m := l.FindStringSubmatch(flat); m != nil && address(m[1], &x) {
			x.Code, x.NoCode = OffTheBus, true
			x.SetMessage(m[2])
			return x, true
		}
	}
	return tick.Xid{}, false
}

// oneLine joins the lines of a driver message, each of which repeats the driver's name.
func oneLine(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l = strings.TrimSpace(l); i > 0 {
			l = strings.TrimSpace(strings.TrimPrefix(l, "NVRM:"))
		}
		lines[i] = l
	}
	return strings.Join(lines, " ")
}

// looksLike reports whether a line begins as faults do.
func looksLike(line string) bool {
	who, _, _ := strings.Cut(line, " (")
	return strings.HasPrefix(line, "NVRM: Xid") ||
		strings.HasPrefix(who, "nvidia-nvswitch") && strings.HasSuffix(strings.TrimSpace(who), ": SXid")
}

// address parses the parentheses after Xid: an address, and the MIG instances to which the fault is
// attributed.
func address(s string, x *tick.Xid) bool {
	words := strings.Fields(s)
	if len(words) == 0 {
		return false
	}
	for _, w := range words[1:] {
		name, number, _ := strings.Cut(w, ":")
		n, err := strconv.ParseUint(number, 10, 32)
		switch {
		case err != nil: // a word of a newer driver: the address is valid
		case name == "GPU-I":
			x.GPUInstance = tick.Numbered(uint32(n))
		case name == "GPU-CI":
			x.ComputeInstance = tick.Numbered(uint32(n))
		}
	}
	x.Bus = Bus(strings.TrimPrefix(words[0], "PCI:"))
	return x.Bus != ""
}

// Bus converts a PCI address to the form that faults have, "0000:75:00". It returns "" if s is no
// address. The domain may be absent.
func Bus(s string) string {
	parts := strings.Split(s, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
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

// Details of an SXid come in separate lines, after the line with the severity.
var detail = regexp.MustCompile(`^(?:Severity [0-9]+ Engine instance|Data *\{)`)

// isDetail reports whether a fault is a detail of the previous one.
func isDetail(x *tick.Xid) bool { return x.Switch && detail.MatchString(x.Msg) }
