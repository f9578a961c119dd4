package xid

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"ingero/internal/tick"
)

// messageRules has the severity and action that a message states, for codes that leave them open.
// The first row that matches counts. Without codes a row is for any Xid.
var messageRules = []struct {
	codes            []uint32
	has              *regexp.Regexp
	severity, action string // "": as the code has it
	then             string // with action: what to do on a repeat
}{
	{nvlink5, regexp.MustCompile(`(?i)\bnon-?fatal\b`), "warning", "IGNORE", "CHECK_NVLINK"},
	{nvlink5, regexp.MustCompile(`(?i)\bfatal\b`), "fatal", "RESET_GPU", "CHECK_NVLINK"},
	{recovery, regexp.MustCompile(`(?i)\bto 0x[0-9a-f]+ \(none\)`), "info", "IGNORE", ""},
	{recovery, regexp.MustCompile(`(?i)\bto 0x[0-9a-f]+ \(gpu reset`), "fatal", "RESET_GPU", ""},
	{recovery, regexp.MustCompile(`(?i)\bto 0x[0-9a-f]+ \(node reboot`), "fatal", "RESTART_BM", ""},
	{recovery, regexp.MustCompile(`(?i)\bto 0x[0-9a-f]+ \(drain and reset`), "fatal", "DRAIN_RESET", ""},
	{recovery, regexp.MustCompile(`(?i)\bto 0x[0-9a-f]+ \(drain`), "fatal", "DRAIN_PEERS", ""},
	{contained, regexp.MustCompile(`(?i)\bD-RST: *yes\b`), "fatal", "DRAIN_RESET", "CONTACT_SUPPORT"},
	{contained, regexp.MustCompile(`(?i)(?:^|[ .])RST: *yes\b`), "fatal", "RESET_GPU", "CONTACT_SUPPORT"},
	{nil, regexp.MustCompile(`(?i)\breset gpu to activate\b|\bgpu reset (?:is )?required\b`), "", "RESET_GPU", ""},
	{nil, regexp.MustCompile(`(?i)\breload the driver to activate\b`), "", "RELOAD_DRIVER", ""},
	{nil, regexp.MustCompile(`(?i)\breboot (?:the system )?to activate\b|\b(?:node )?reboot (?:is )?required\b`), "", "RESTART_BM", ""},
}

// Codes of said.
var (
	nvlink5   = []uint32{144, 145, 146, 147, 148, 149, 150}
	recovery  = []uint32{154}
	contained = []uint32{94, 95}
)

// LookupFault returns the facts about a fault: from its code, and from its message if the code
// leaves severity or action open.
func LookupFault(x *tick.Xid) Code {
	if x.Switch {
		return LookupSwitch(x.Code, x.Msg)
	}
	c := Lookup(x.Code)
	for i := range messageRules {
		s := &messageRules[i]
		if s.codes != nil && !slices.Contains(s.codes, x.Code) || !s.has.MatchString(x.Msg) {
			continue
		}
		if s.severity != "" {
			c.Severity = s.severity
		}
		c.Do, c.action = instruction(s.action, s.then), s.action
		break
	}
	if x.At == 1 && x.CausedBy == 0 { // there is no earlier fault
		c.Do = cmp.Or(strings.TrimSpace(strings.Replace(c.Do, actions["FOLLOW_ROOT"], "", 1)), actions[""])
	}
	return c
}

// The severity in the message of an SXid: in words, or as a number in its details.
var (
	switchNonFatal = regexp.MustCompile(`(?i)\bnon-?fatal\b|\bSeverity 0\b`)
	switchFatal    = regexp.MustCompile(`(?i)\bfatal\b|\bSeverity [1-9]`)
)

// LookupSwitch returns the facts in the message of an SXid.
func LookupSwitch(code uint32, msg string) Code {
	c := Code{Code: code, Meaning: "An NVSwitch reports an error; its message names the link.", Do: actions["CHECK_NVLINK"]}
	switch {
	case switchNonFatal.MatchString(msg):
		c.Severity = "warning"
	case switchFatal.MatchString(msg):
		c.Severity, c.Do = "fatal", "Stop all processes on the GPUs of this fabric, reset these GPUs and the switches, and restart the fabric manager."
	}
	return c
}
