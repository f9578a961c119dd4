package explain

import (
	"fmt"
	"strconv"
	"strings"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// sharersOf returns the untraced processes that may use the GPU that is a chain's culprit.
func sharersOf(c *tick.Chain) []tick.Sharer {
	if len(c.Culprits) == 0 {
		return nil
	}
	return c.Culprits[0].Sharers
}

// causeSlower is the cause of a slower GPU.
func causeSlower(c *tick.Chain, v *victim) string {
	s := orWords(whats(c), "the GPU") + " takes longer than before for the same steps of " + v.name +
		", and nothing on the host explains it: other kernels or shapes, a slower GPU, or a process on the GPU that is not traced"
	list := sharersOf(c)
	var parts []string
	for i := range list[:min(len(list), mostNamed)] {
		parts = append(parts, sharerText(&list[i], c))
	}
	if len(parts) == 0 {
		return s
	}
	s += ". CUDA programs that have the GPU open, too, and are not traced: " + strings.Join(parts, "; ")
	switch more := len(list) - len(parts); {
	case more > 0 && len(list) == tick.MaxSharers:
		s += fmt.Sprintf("; and at least %d more", more)
	case more > 0:
		s += fmt.Sprintf("; and %d more", more)
	}
	return s
}

// sharerText describes a process: "python3 train.py (4242), started 3.20 s before the first slow step".
func sharerText(x *tick.Sharer, c *tick.Chain) string {
	facts := strconv.FormatUint(uint64(x.PID), 10)
	if x.Where != "" {
		facts += "; " + clean(x.Where)
	}
	s := orWords(cut(clean(x.Cmdline), 60), orWords(clean(x.Comm), "process")) + " (" + facts + ")"
	if x.Started.IsZero() || c.From.IsZero() {
		return s
	}
	return s + ", started " + Duration(max(c.From.Sub(x.Started), 0).Nanoseconds()) + " before the first slow step"
}

// fixSlower is the advice for a slower GPU.
func fixSlower(c *tick.Chain, _ *victim) string {
	const when, clocks = "find out what changed at that time: ingero query --by function before and after; ", "nvidia-smi -q -d PERFORMANCE,CLOCK shows the clocks"
	list := sharersOf(c)
	if len(list) == 0 {
		return when + clocks + "; nvidia-smi pmon shows the processes on the GPU; a trace without --pid names the one that takes its time"
	}
	who, it := processName(list[0].Comm, list[0].PID), "it"
	if len(list) > 1 {
		who, it = "other programs", "them"
	}
	pids := strconv.FormatUint(uint64(c.PID), 10)
	for i := range list {
		pids += "," + strconv.FormatUint(uint64(list[i].PID), 10)
	}
	return who + " may use the GPU, too: trace " + it + " with the job to know: ingero trace --pid " + pids + "; else " + when + clocks
}

func jsonSharers(list []tick.Sharer) (out []wire.Sharer) {
	for i := range list {
		x := &list[i]
		j := wire.Sharer{PID: x.PID, Name: clean(x.Comm), Cmdline: clean(x.Cmdline), Where: clean(x.Where)}
		if !x.Started.IsZero() {
			j.Started = x.Started.UTC()
		}
		out = append(out, j)
	}
	return out
}
