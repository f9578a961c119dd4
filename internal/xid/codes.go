package xid

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// codes.tsv has a row for each published code: the driver's name for it, its severity, what to do
// at once and what then (keys of actions), and its meaning.
//
//go:embed codes.tsv
var codesTSV string

// Code has the facts about an Xid.
type Code struct {
	Code     uint32
	Name     string // the driver's own, "" if not published
	Severity string // "fatal", "warning", "info" or "": not published
	Meaning  string // a sentence
	Do       string // a sentence or two

	action string // key of what to do at once
}

const reset = "reset it: sudo nvidia-smi -r -i GPU. Stop ingero, DCGM and nvidia-persistenced before: they use the GPU, too."

// actions are the instructions, by key.
var actions = map[string]string{
	"":                  "NVIDIA publishes no action for this code. Check the faults around it.",
	"CHECK_APP":         "Look for the bug in the program: compute-sanitizer finds most bugs. If other programs fail on this GPU too, test it: dcgmi diag -r 3.",
	"CHECK_MECHANICALS": "Check the power cables, the seat of the card, and its cooling.",
	"CHECK_NVLINK":      "Look up the link (nvidia-smi nvlink -e) and reset the GPUs at its ends. If the fault recurs, check the cable and the board.",
	"CHECK_PEERS":       "Look for a fault on the GPUs linked to this one: it is usually the root cause.",
	"CHECK_UVM":         "Look for errors of the nvidia-uvm module in the kernel log.",
	"CONTACT_SUPPORT":   "Run nvidia-bug-report.sh and contact the machine vendor's support.",
	"DRAIN_PEERS":       "Start no new multi-GPU work on this GPU, and stop its multi-GPU jobs.",
	"DRAIN_RESET":       "Start no new work on this GPU, stop its processes, and " + reset,
	"FOLLOW_ROOT":       "Look at the first fault of the burst: it caused this one.",
	"IGNORE":            "No immediate action is needed.",
	"INVESTIGATE_SW":    "If it recurs, look for a newer driver, and report it with nvidia-bug-report.sh.",
	"READ_MESSAGE":      "Follow the message: reset the GPU, or drain and reboot the machine.",
	"RELOAD_DRIVER":     "Stop all processes on all GPUs, also ingero, DCGM and nvidia-persistenced, and reload the driver: sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia, then sudo modprobe -a nvidia nvidia_uvm. Or reboot the machine.",
	"RESET_GPU":         "Stop all processes on this GPU and " + reset,
	"RESTART_APP":       "Restart the affected program.",
	"RESTART_BM":        "Reboot the machine.",
	"RESTART_FM":        "If other faults are near it, follow their advice. If the process was stopped or killed, do nothing. Otherwise, on machines with NVSwitch (HGX, DGX), look at the fabric manager: systemctl status nvidia-fabricmanager. A restart of it can abort all CUDA jobs: drain the machine before.",
	"RESTART_VM":        "Restart the virtual machine.",
	"UPDATE_SWFW":       "Update driver and firmware on host and guest to compatible versions.",
}

var codes = sync.OnceValue(func() map[uint32]Code {
	out := map[uint32]Code{}
	for line := range strings.Lines(codesTSV) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil || len(f) != 6 { // the header; a test checks all rows
			continue
		}
		out[uint32(n)] = Code{Code: uint32(n), Name: f[1], Severity: f[2], Meaning: f[5], Do: instruction(f[3], f[4]), action: f[3]}
	}
	return out
})

// instruction returns what to do, from the keys of actions: at once, and then.
func instruction(action, then string) string {
	do, then := actions[action], actions[then]
	switch {
	case then == actions[""]:
		return do
	case strings.HasPrefix(then, "If "), strings.HasPrefix(then, "Look "):
		return do + " " + then
	}
	return do + " If it recurs: " + strings.ToLower(then[:1]) + then[1:]
}

// Lookup returns the facts about an Xid. For an unpublished code, the meaning says so.
func Lookup(code uint32) Code {
	if c, ok := codes()[code]; ok {
		return c
	}
	return Code{Code: code, Meaning: "NVIDIA has not published this code.", Do: actions["CONTACT_SUPPORT"]}
}
