package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
	"ingero/pkg/events"
)

// reasonWords are the words for wait reasons. An empty row uses the name of the system call.
var reasonWords = map[events.Reason]string{
	events.ReasonUnknown: "unknown", events.ReasonLock: "lock", events.ReasonPoll: "poll", events.ReasonSleep: "sleep",
	events.ReasonPipe: "pipe", events.ReasonSocket: "socket", events.ReasonDisk: "disk", events.ReasonFile: "file system",
	events.ReasonFault: "page fault", events.ReasonGPU: "GPU driver", events.ReasonDevice: "device", events.ReasonChild: "child process",
	events.ReasonStopped: "stopped", events.ReasonMemory: "memory map", events.ReasonOther: "",
	events.ReasonGIL: "GIL", events.ReasonHypervisor: "hypervisor",
}

// blockReason describes what a thread was blocked on: "disk 254:0", "lock", "sched_yield".
func blockReason(r events.Reason, call events.Syscall, dev uint32) string {
	words, known := reasonWords[r]
	switch {
	case !known:
		words = r.String()
	case words == "" && call != 0:
		return call.String()
	case words == "":
		return "system call"
	}
	switch r {
	case events.ReasonDisk, events.ReasonFile, events.ReasonDevice:
		if r == events.ReasonDisk && dev != 0 && dev>>20 == 0 { // FUSE, NFS, btrfs
			words = "file system"
		}
		if dev != 0 {
			words += " " + device(dev)
		}
	case events.ReasonUnknown:
		if call != 0 {
			return call.String()
		}
	}
	return words
}

// device formats a device number as in the kernel's files: "254:0".
func device(dev uint32) string {
	return strconv.Itoa(int(dev>>20)) + ":" + strconv.Itoa(int(dev&(1<<20-1)))
}

// threadName returns a thread's name, safe to show.
func threadName(t *events.Thread) string {
	if name := t.Name.String(); name != "" {
		return clean(name)
	}
	return "process"
}

// cpuUser names the CPU user of a share of runnable time.
func cpuUser(s *tick.Share) string {
	switch {
	case s.Idle:
		return "idle CPU waking up"
	case s.Reason == events.ReasonHypervisor:
		return "the hypervisor"
	case s.Agent:
		return "ingero itself"
	case s.Own:
		return "own thread " + threadName(&s.Who)
	case s.Who.TID == 0:
		return "many short-running threads"
	}
	return threadName(&s.Who)
}

// blockedOn describes a share of blocked time: the reason, the thread that ended it, and what that
// thread did meanwhile.
func blockedOn(s *tick.Share) string {
	words := blockReason(s.Reason, s.Call, s.Dev)
	if s.At != "" && s.Reason != events.ReasonGIL {
		words += " at " + clean(s.At)
	}
	if s.Who.TID == 0 || s.ByIRQ {
		return words
	}
	link := ", ended by "
	switch s.Reason {
	case events.ReasonGIL:
		link = ", held by "
	case events.ReasonPipe, events.ReasonSocket:
		link = " from "
	case events.ReasonStopped:
		link = " by "
	}
	words += link
	if s.Own {
		words += "own thread "
	}
	words += threadName(&s.Who) + " " + strconv.FormatUint(uint64(s.Who.TID), 10)
	if s.At != "" && s.Reason == events.ReasonGIL {
		words += " at " + clean(s.At)
	}
	if s.Across != 0 {
		return words + " across " + s.Across.String()
	}
	return words + meanwhile(s.Waker, s.WakerAt)
}

// meanwhile describes most of a waker's time, and its place in the program.
func meanwhile(w *tick.WakerShare, at string) string {
	if w == nil {
		return ""
	}
	if at != "" {
		at = " at " + clean(at)
	}
	most := max(w.OnCPU, w.Runnable, w.Throttled, w.Blocked)
	which := ", which"
	if w.Root.TID != 0 {
		which = ", which waited for " + threadName(&w.Root) + " " + strconv.FormatUint(uint64(w.Root.TID), 10) + ", which"
	}
	switch most {
	case 0:
		return ""
	case w.Blocked:
		if w.Reason == events.ReasonSleep {
			return which + " slept" + at
		}
		return which + " waited for " + blockReason(w.Reason, w.Call, w.Dev) + at
	case w.Runnable:
		s := which + " waited for a CPU"
		switch {
		case w.Hypervisor:
			s += " taken by the hypervisor"
		case w.By.TID != 0:
			s += " used by " + threadName(&w.By)
		}
		return s
	case w.Throttled:
		return which + " was throttled"
	}
	return which + " ran" + at
}

// namedTime is time under a name.
type namedTime struct {
	name  string
	ns    uint64
	count uint64
	pids  []uint32
}

// byName adds up the shares of one name, so that eight workers of one program are one line. The
// largest come first; unnamed is the rest.
func byName(shares []tick.Share, total uint64, name func(*tick.Share) string) (out []namedTime, unnamed uint64) {
	unnamed = total
	at := map[string]int{}
	for i := range shares {
		s := &shares[i]
		unnamed -= min(s.NS, unnamed)
		key := name(s)
		j, known := at[key]
		if !known {
			j = len(out)
			at[key] = j
			out = append(out, namedTime{name: key})
		}
		n := &out[j]
		n.ns += s.NS
		n.count += s.Count
		if s.Who.PID != 0 && !slices.Contains(n.pids, s.Who.PID) {
			n.pids = append(n.pids, s.Who.PID)
		}
	}
	slices.SortStableFunc(out, func(a, b namedTime) int { return compareDown(a.ns, b.ns) })
	return out, unnamed
}

func compareDown(a, b uint64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// numbers lists PIDs: "8821, 8822 and 6 more".
func numbers(pids []uint32) string {
	const most = 3
	var parts []string
	for _, pid := range pids[:min(len(pids), most)] {
		parts = append(parts, strconv.FormatUint(uint64(pid), 10))
	}
	s := strings.Join(parts, ", ")
	if more := len(pids) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// cpuList formats CPU numbers as taskset does: "0-3,7".
func cpuList(cpus []uint16) string {
	cpus = slices.Compact(slices.Sorted(slices.Values(cpus)))
	var parts []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		s := strconv.Itoa(int(cpus[i]))
		if j > i {
			s += "-" + strconv.Itoa(int(cpus[j]))
		}
		parts = append(parts, s)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Reason describes a wait reason from its name ("pipe", "gpu-driver").
func Reason(name string) string {
	for r, words := range reasonWords {
		if r.String() == name && words != "" {
			return words
		}
	}
	if name == events.ReasonOther.String() {
		return "the kernel"
	}
	return clean(name)
}

// Wrap breaks a text at spaces into lines of at most width columns.
func Wrap(text string, width int) []string { return wrap(text, "", width) }
