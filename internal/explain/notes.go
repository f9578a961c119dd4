package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// dropWords explains the reasons of drops; the count comes before it.
var dropWords = map[string]string{
	"ring-full":          "call records dropped: ring buffer full. Counts and sums include these calls, lists of calls do not",
	"kept-ring-full":     "records of step-ending and other important calls dropped: both ring buffers full. Counts and sums include these calls; their time counts as time between calls",
	"wait-left-out":      "records of waits or of exited threads dropped: ring buffers full. Sums include them",
	"thinned":            "records of fast calls sampled out under load. Other records represent them; counts and sums include these calls",
	"critical-ring-full": "process events (fork, exec, exit) dropped: ring buffer full",
	"too-many-threads":   "calls counted, not timed: too many threads made calls at the same time (--max-threads)",
	"too-many-counters":  "calls counted per function only: table of counts full (--max-threads)",
	"too-many-processes": "new child processes not traced: process table full",
	"nested-too-deep":    "calls counted, not timed: nested too deep",
	"duplicate-link":     "duplicate calls ignored: they arrived by a second path",
	"orphan-return":      "returns of calls that started before the probes were attached",
	"malformed-record":   "malformed records skipped",
	"disk-full":          "calls not recorded: the disk was full",
	"rows-left-out":      "labels, names of GPU functions, causes, faults or metrics of servers not recorded: too many during a pause, or invalid",

	"stack-left-out":          "stacks dropped: stack table full",
	"stack-not-named":         "stacks have addresses only: too many new stacks at once",
	"stack-process-not-known": "stacks have only the call site: the mappings of the process were not known yet",
	"stack-mapping-not-known": "stacks truncated in code that was mapped shortly before",
	"stack-table-not-loaded":  "stacks truncated in a file whose unwind table was not loaded yet",
	"stack-no-table-there":    "stacks truncated in code without unwind information",
	"stack-made-at-run-time":  "stacks truncated in code generated at run time, which has no unwind information",
	"stack-not-in-memory":     "stacks truncated: memory could not be read",
	"stack-no-caller":         "stacks truncated: no caller found",
	"range-left-out":          "NVTX calls dropped: buffer full. Some steps that the program names are not counted",
	"python-left-out":         "Python functions not recorded, or child processes without Python frames: too many at once",
	"python-too-many-threads": "stacks without Python frames: the process has too many threads",
	"python-two-interpreters": "stacks without Python frames: the thread was in two interpreters",
	"python-unreadable":       "stacks with missing Python frames: memory could not be read",
	"python-strange":          "stacks with missing Python frames: invalid interpreter data",
	"host-files-left-out":     "cgroups or machine files not read for their quota, limit or pressure: too many",
	"gpu-users-not-read":      "processes not looked at for a GPU that they have open: too many open files, or not permitted",
	"state-no-room":           "calls missing in the memory, streams and communicators of their process: more than 512 processes",
	"causes-left-out":         "causes below HIGH not reported: more than 256 at the same time",
	"faults-full":             "GPU faults dropped: too many at once",
	"faults-over":             "GPU faults dropped: a recording keeps the first 100,000",
	"faults-lost":             "GPU faults reported by the driver could not be recorded",
	"faults-unread":           "kernel log lines begin like GPU faults but could not be parsed: please report them",
	"waker-quota":             "threads that ended long waits not followed: limit of 64 per process. What these threads did meanwhile is unknown",
	"waker-deep-quota":        "threads further up a chain of waits not followed: limit of 64 per process",
	"waker-no-room":           "threads that ended long waits not followed: thread table full (--max-threads)",
	"waker-too-far":           "waits not followed to their root: more than four threads in the chain",
	"waker-kernel-thread":     "long waits ended by kernel threads, which ingero does not follow",
	"waker-agent":             "long waits ended by ingero itself, which it does not follow",
	"culprit-no-room":         "waits with an unnamed CPU user: more than 16 programs, or threads of the job, used the CPU",
	"culprit-overwritten":     "waits for a CPU partly unnamed: the CPU switched threads more than 256 times in each",

	"requests-tls":              "connections to servers not measured: encrypted (TLS)",
	"requests-http2":            "connections to servers not measured: HTTP/2",
	"requests-other-protocol":   "connections to servers not measured: not HTTP, or begun before the trace",
	"requests-pipelined":        "connections to servers not measured: the client sent requests before the response to the last one",
	"requests-other-call":       "connections to servers not measured: received by a system call such as io_uring's, whose buffer is unknown",
	"requests-connections-full": "connections to servers not measured: more than 8,192 at the same time",
	"requests-ring-full":        "requests to servers dropped: buffer full",

	// For the kernel log, all lines count: it is unknown whether they were faults.
	"kernel-log-overwritten": "kernel log lines overwritten before they were read: GPU faults may be missing",
	"kernel-log-suppressed":  "driver messages suppressed by the kernel: too many",
	"label-malformed":        "messages with labels refused: not valid. ingero annotate sends valid ones",
	"label-denied":           "messages with labels refused: the sender may not label that process",
	"label-sender-ended":     "messages with labels refused: the sender had ended when its message was read",
	"label-no-process":       "messages with labels refused: no such process or thread",
	"label-wrong-time":       "messages with labels refused: their time is in the future, or more than 10 s ago",
	"label-rate":             "messages with labels refused: more than 100 changes a second of a process",
	"label-too-many":         "messages with labels refused: too many keys, or too many processes with labels",
	"label-full":             "messages with labels refused: too many at once",
	"label-socket":           "messages with labels could not be read",
	"holder-not-read":        "waits for Python's lock without the thread that held it: the memory of the process was not readable in time",
	"programs-not-read":      "command lines and ranks of processes not read, or read late: too many new processes at once, or their memory was locked",
}

// DropWords explains the reason of a drop, after a count.
func DropWords(reason string) string {
	if words := dropWords[reason]; words != "" {
		return words
	}
	return reason
}

// bearsOnNothing reports whether a reason affects no result.
func bearsOnNothing(reason string) bool {
	switch reason {
	case "duplicate-link", "waker-kernel-thread", "waker-agent":
		return true
	}
	return false
}

// isLoss reports whether a reason means lost data about calls. Thinned records were left out on
// purpose, and a duplicate is a copy. Most lines of the kernel log do not matter, and a call is
// known without its stack.
func isLoss(reason string) bool {
	switch reason {
	case "thinned", "duplicate-link", "orphan-return", "programs-not-read", "holder-not-read", "state-no-room", "causes-left-out", "host-files-left-out", "gpu-users-not-read", "rows-left-out", "kernel-log-overwritten", "kernel-log-suppressed":
		return false
	}
	return !AffectsStacks(reason) && !AffectsWakers(reason) && !strings.HasPrefix(reason, "requests-") && !AffectsLabels(reason)
}

// AffectsWakers reports whether a reason means that a wait is not followed to its root, or that
// some CPU users are unnamed: no call is lost.
func AffectsWakers(reason string) bool {
	return strings.HasPrefix(reason, "waker-") || strings.HasPrefix(reason, "culprit-")
}

// AffectsLabels reports whether a reason means that messages with labels were refused: no call is
// lost.
func AffectsLabels(reason string) bool { return strings.HasPrefix(reason, "label-") }

// AffectsStacks reports whether a reason means that stacks are missing or end early.
func AffectsStacks(reason string) bool {
	return strings.HasPrefix(reason, "stack-") || strings.HasPrefix(reason, "python-")
}

// Lost returns the amount of lost data over all reasons.
func Lost(drops []tick.Drop) uint64 {
	var n uint64
	for _, d := range drops {
		if isLoss(d.Reason) {
			n += d.Count
		}
	}
	return n
}

// reportWords explains how a failed action affects the report. A missing kind has no effect: a
// library without a symbol has no calls of it.
var reportWords = map[string]string{
	"not-calibrated":   "",
	"not-attached":     "has no probes, so its calls were not seen",
	"unprobed-symbol":  "has no probe, so its calls were not seen",
	"entry-only":       "made calls that are counted, not timed",
	"launches-counted": "",
	"launches-timed":   "",
	"precision-lost":   "",
	"precision-back":   "",
	"overhead-floor":   "",
	"clock-step":       "",
	"late-attach":      "was not traced from the start",
	"runtime-unseen":   "is only partly traced",
	"left-out":         "is only partly traced",
	"kubernetes":       "are not all known by name",

	"fault-process-unknown": "cannot be read, so the process and the MIG instance of a GPU fault are unknown",

	"requests-not-measured": "to servers are not measured",

	"no-python-frames":  "",
	"labels-off":        "cannot be opened, so labels are not recorded",
	"faults-unseen":     "cannot be read, so GPU faults may be missed",
	"gpu-state-unknown": "is not known",
}

// reportNotes returns the notes about all processes.
func reportNotes(in *Input, r *report) []string {
	notes := []string{}
	for _, remark := range in.Remarks {
		notes = append(notes, sentence(clean(remark)))
	}
	notes = append(notes, in.Labels.notes(r)...)
	notes = append(notes, sharing(in, r)...)
	for _, d := range in.Drops {
		switch words := dropWords[d.Reason]; {
		case d.Count == 0 || bearsOnNothing(d.Reason):
		case words == "":
			notes = append(notes, Count(d.Count)+" dropped: "+clean(d.Reason)+".")
		default:
			notes = append(notes, Count(d.Count)+" "+words+".")
		}
	}
	if note := lowerBounds(r.Reports); note != "" {
		notes = append(notes, note)
	}
	for _, x := range r.Reports {
		switch words, bears := reportWords[x.Kind]; {
		case !bears:
		case words == "":
			notes = append(notes, sentence(x.Why))
		default:
			notes = append(notes, x.Object+" "+words+": "+x.Why+".")
		}
	}
	return notes
}

// lowerBounds names the operations with incomplete counts.
func lowerBounds(reports []wire.Limitation) string {
	var names []string
	why := ""
	for _, x := range reports {
		if x.Kind != tick.LowerBound {
			continue
		}
		if why == "" { // several reasons differ only in the time
			why = x.Why
		}
		if !slices.Contains(names, x.Object) {
			names = append(names, x.Object)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Counts of " + strings.Join(names, ", ") + " are lower bounds: " + why + "."
}

// sentence turns a line of a report into a sentence.
func sentence(s string) string {
	if s == "" {
		return s
	}
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(s[n:], ".") + "."
}

// processNotes describes what was not seen or not measured of a process.
func processNotes(p *tick.Process, ops []tick.Op, outer []split, t *wire.TimeReport, from time.Time) []string {
	notes := []string{}
	var calls uint64
	for i := range ops {
		calls += ops[i].Sum.Calls
	}
	if late := p.Attached.Sub(p.Mapped); !p.Mapped.IsZero() && late > 0 && !p.Attached.Before(from) {
		notes = append(notes, fmt.Sprintf("Its calls in the %s between loading CUDA and the attach were not seen.", Duration(late.Nanoseconds())))
	} else if p.Mapped.IsZero() && !p.Attached.IsZero() && p.Attached.After(from) {
		notes = append(notes, "Its calls before the attach were not seen.")
	}
	notes = append(notes, unreturned(ops)...)
	if t == nil {
		if calls > 0 {
			notes = append(notes, "No call was timed, so where the time went is not known.")
		}
		return notes
	}
	if !t.GapsKnown {
		notes = append(notes, "The time between calls was not recorded: the shares are of the time in calls.")
	}
	thinned, guess := false, ""
	for i := range ops {
		thinned = thinned || ops[i].Thinned
		if part := outer[i].total; mixed(&ops[i].Sum) && min(part, ops[i].Sum.Total-min(part, ops[i].Sum.Total)) > t.ThreadNS/1000 {
			guess += ", " + ops[i].Op.String()
		}
	}
	if thinned {
		notes = append(notes, fmt.Sprintf("Operations marked ~ lack records: their quantiles are from the kernel's histogram, ±%.0f %%. Counts and sums are exact; the time between calls is an estimate.", 100*stats.HistError))
	}
	if guess != "" {
		notes = append(notes, "The time nested in other calls is an estimate for "+guess[2:]+".")
	}
	return notes
}

// unreturned describes the calls without a time.
func unreturned(ops []tick.Op) []string {
	var notes []string
	var abandoned, counted, inner uint64
	var names []string
	for i := range ops {
		o := &ops[i]
		if n := open(&o.Sum); n > 0 {
			names = append(names, Count(n)+" "+o.Op.String())
		}
		abandoned += o.Sum.Abandoned
		if r := o.Op.Row(); r != nil && r.Class == events.ClassLaunch && !r.EntryOnly {
			n := min(o.Sum.Unmeasured, o.Sum.Nested)
			inner += n
			counted += o.Sum.Unmeasured - n
		} else {
			counted += o.Sum.Unmeasured
		}
	}
	if len(names) > 0 {
		notes = append(notes, "Not returned yet, so their time is missing: "+strings.Join(names, ", ")+".")
	}
	if abandoned > 0 {
		notes = append(notes, plural(abandoned, "call")+" never returned (longjmp, exec or thread exit): counted, not timed.")
	}
	if inner > 0 {
		notes = append(notes, plural(inner, "driver launch")+" inside launches of the runtime: counted, not timed; their time is part of the runtime's.")
	}
	if counted > 0 {
		notes = append(notes, plural(counted, "call")+" counted, not timed: their return was not traced.")
	}
	return notes
}
