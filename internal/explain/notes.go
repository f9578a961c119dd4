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
	"ingero/pkg/events"
)

// dropWords explains the reasons of drops; the count comes before it.
var dropWords = map[string]string{
	"ring-full":          "records of calls were lost because the buffer was full: those calls are in counts and sums, not in lists of calls",
	"kept-ring-full":     "records of calls that answers rest on were lost because both buffers were full: those calls are in counts and sums, and their time is between the calls that have records",
	"wait-left-out":      "waits, or last accounts of threads, were lost because the buffers were full: the sums have them",
	"thinned":            "records of fast calls were left out on purpose, under load: others stand for them, and those calls are in counts and sums",
	"critical-ring-full": "events of processes (start, program, exit) were lost because the buffer was full",
	"too-many-threads":   "calls were counted, not timed: too many threads made calls at the same time",
	"too-many-counters":  "calls were counted for their function, not for their process: too many processes made calls",
	"too-many-processes": "new child processes were not traced: too many already were",
	"nested-too-deep":    "calls were counted, not timed: too many calls were open around them",
	"duplicate-link":     "calls came by a second way and were left out, so that each counts once",
	"orphan-return":      "returns came whose calls had begun before the probes were in place",
	"malformed-record":   "records could not be read",

	"stack-left-out":          "stacks found no room, and their calls have none",
	"stack-not-named":         "stacks have addresses only: too many were new at a time",
	"stack-process-not-known": "stacks have the place of the call alone: they were taken before what the process maps was known",
	"stack-mapping-not-known": "stacks end early, in code that was mapped just before",
	"stack-table-not-loaded":  "stacks end early, in a file whose table was not loaded yet",
	"stack-no-table-there":    "stacks end early, in code that does not say who its callers are",
	"stack-made-at-run-time":  "stacks end in code that was made at run time, which does not say who its callers are",
	"stack-not-in-memory":     "stacks end early, where memory could not be read",
	"stack-no-caller":         "stacks end early, where no caller was found",
	"range-left-out":          "calls of NVTX found no room, so some steps that the program names are not counted",
	"python-left-out":         "Python functions were met and not taken down, or child processes have no Python frames: too many came at once",
	"python-too-many-threads": "stacks have no Python frames: the process has too many threads to look for the one",
	"python-two-interpreters": "stacks have no Python frames: the thread was in two interpreters",
	"python-unreadable":       "stacks lack Python frames: memory could not be read",
	"python-strange":          "stacks lack Python frames: what was there made no sense",
	"faults-full":             "faults of GPUs were left out: too many came at once",
	"faults-over":             "faults of GPUs were left out: a session tells the first 100,000",
	"faults-lost":             "faults of GPUs were reported by the driver and could not be taken down",
	"faults-unread":           "lines of the kernel's log begin like faults of GPUs and could not be read: please report them",
	"waker-quota":             "threads that ended long waits are not accounted for, so what they did meanwhile is not known: the process has 64 of them",
	"waker-deep-quota":        "threads behind those that ended long waits are not accounted for: the process has 64 of them",
	"waker-no-room":           "threads that ended long waits are not accounted for: too many threads are",
	"waker-too-far":           "times a wait was not followed further: its chain has more than four threads",
	"waker-kernel-thread":     "long waits were ended by threads of the kernel, which have no account",
	"waker-agent":             "long waits were ended by ingero itself, which has no account",
	"culprit-no-room":         "times who had the CPU in a wait has no name: more than 16 programs, or threads of the job, had it",
	"culprit-overwritten":     "waits for a CPU have no name for part of their time: the CPU had more than 256 turns in each",
	// For the kernel log, all lines count: it is unknown whether they were faults.
	"kernel-log-overwritten": "lines of the kernel's log were written over before they were read: faults of GPUs may have been among them",
	"kernel-log-suppressed":  "messages of the driver were kept back by the kernel, for there were too many",
	"programs-not-read":      "command lines and ranks of processes were not read: too many processes came at once",
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
	case "thinned", "duplicate-link", "orphan-return", "programs-not-read", "kernel-log-overwritten", "kernel-log-suppressed":
		return false
	}
	return !OfStacks(reason) && !OfWakers(reason)
}

// OfWakers reports whether a reason means that a wait is not followed to its root, or that some CPU
// users are unnamed: no call is lost.
func OfWakers(reason string) bool {
	return strings.HasPrefix(reason, "waker-") || strings.HasPrefix(reason, "culprit-")
}

// OfStacks reports whether a reason means that stacks are missing or end early.
func OfStacks(reason string) bool {
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
	"entry-only":       "calls are counted, not timed",
	"launches-counted": "",
	"launches-timed":   "",
	"precision-lost":   "",
	"precision-back":   "",
	"overhead-floor":   "",
	"late-attach":      "was not seen all the time",
	"runtime-unseen":   "is seen in part",
	"left-out":         "is seen in part",
	"kubernetes":       "are not all known by name",

	"no-python-frames":  "",
	"faults-unseen":     "cannot be read, so faults of GPUs may be missed",
	"gpu-state-unknown": "is not known",
}

// reportNotes returns the notes about all processes.
func reportNotes(in *Input, r *report) []string {
	notes := []string{}
	for _, remark := range in.Remarks {
		notes = append(notes, sentence(clean(remark)))
	}
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
func lowerBounds(reports []reportJSON) string {
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
	return "Counts are lower bounds of " + strings.Join(names, ", ") + ": " + why + "."
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
func processNotes(p *tick.Process, ops []tick.Op, outer []split, t *timeReport, from time.Time) []string {
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
		notes = append(notes, fmt.Sprintf("Records are missing of operations marked ~: their quantiles are from the kernel's histogram, ±%.0f %%. Counts and sums are exact; the time between calls is an estimate.", 100*stats.HistError))
	}
	if guess != "" {
		notes = append(notes, "How much of these lay inside other calls is an estimate: "+guess[2:]+".")
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
		notes = append(notes, plural(abandoned, "call")+" never returned (a longjmp, another program, or the thread's end): counted, not timed.")
	}
	if inner > 0 {
		notes = append(notes, plural(inner, "driver launch")+" inside launches of the runtime: counted, not timed; their time is part of the runtime's.")
	}
	if counted > 0 {
		notes = append(notes, plural(counted, "call")+" counted, not timed: their return was not watched.")
	}
	return notes
}
