package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/wire"
)

func stuckCommand(e *Env) *cobra.Command {
	var pids []uint
	least, asJSON := "1s", false
	c := &cobra.Command{
		Use:   "stuck",
		Short: "List the calls that have not returned, and what each waits for",
		Long: `stuck lists the CUDA calls that have not returned, and what their threads do: run, wait
for a CPU that another process uses, or wait for a lock, a file, a socket or a disk. It
requires a running trace (sudo ingero trace) and shows the state that the trace published
in the last second. stuck looks up file paths and the users of CPUs itself, as far as your
privileges allow. A trace sees only calls that begin while it runs.

If ranks of an NCCL communicator wait in a collective that another rank has not entered,
stuck names the missing rank and what it does instead, or how it ended. stuck covers the
traced ranks of communicators created during the trace.

stuck exits with code 0 if no call is stuck, 3 if a call is stuck, and 1 if no trace runs.`,
		Example: "  ingero stuck\n  ingero stuck --min 10s --json\n  watch -n 1 ingero stuck",
		Args:    noArguments,
	}
	f := c.Flags()
	f.StringVar(&least, "min", least, "only calls open for at least this long")
	f.UintSliceVarP(&pids, "pid", "p", nil, "only these processes: 4821 or 4821,5032")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(*cobra.Command, []string) error {
		d, err := config.ParseDuration(least)
		if err != nil || d < openFor {
			return usage("ingero stuck --min 10s", "--min cannot be %q: it must be a duration of %s or more", least, explain.Duration(int64(openFor)))
		}
		s, err := e.findStuckCalls(time.Now(), d, pids)
		if err != nil {
			return err
		}
		if asJSON {
			err = e.json(s)
		} else {
			err = e.printf("%s", stuckText(s))
		}
		if err == nil && len(s.Calls)+len(s.RollCalls) > 0 {
			return exitCode(exitStuck)
		}
		return err
	}
	return c
}

// findStuckCalls reads the running trace's state and looks up what the state lacks.
func (e *Env) findStuckCalls(now time.Time, least time.Duration, pids []uint) (*wire.Stuck, error) {
	st, err := readStatus(e.Lock, now)
	switch {
	case err != nil:
		return nil, err
	case !st.Running:
		return nil, &problem{What: "no trace is running, so ingero cannot tell which calls are open", Do: "py-spy dump --pid PID shows where a Python program hangs now; for the next hang, start a trace before the job: sudo ingero trace"}
	case st.Trace.Updated.IsZero():
		return nil, &problem{What: "cannot read the trace's state", Do: "the trace is starting, or runs in a container: retry, or run as root"}
	}
	s := stuckOf(st.Trace, now, least, pids)
	for i := range s.Calls {
		addDetails(&s.Calls[i])
	}
	for i := range s.RollCalls {
		for j := range s.RollCalls[i].Missing {
			addDetails(&s.RollCalls[i].Missing[j].Call)
		}
	}
	s.Calls = slices.DeleteFunc(s.Calls, func(c wire.StuckCall) bool { return !threadLives(c.PID, c.TID) })
	return s, nil
}

// stuckOf selects the calls of at least this duration and of these processes.
func stuckOf(t *wire.TraceState, now time.Time, least time.Duration, pids []uint) *wire.Stuck {
	s := &wire.Stuck{Updated: t.Updated, MinNS: int64(least), Calls: []wire.StuckCall{}, More: t.MoreOpen}
	if age := now.Sub(t.Updated); age > silence {
		s.Problems = append(s.Problems, fmt.Sprintf("the trace has not published its state for %s: this list may be outdated", explain.Duration(int64(age))))
	}
	if n := t.Unranked; n > 0 {
		s.Problems = append(s.Problems, fmt.Sprintf("%d processes created NCCL communicators before the trace began: their ranks are unknown, so missing ranks among them are not detected", n))
	}
	for i := range t.RollCalls {
		if r := rollOf(&t.RollCalls[i], t.Updated); concerns(&r, pids) {
			s.RollCalls = append(s.RollCalls, r)
		}
	}
	for _, o := range t.Open {
		c := stuckCallOf(o, t.Updated)
		if c.OpenNS >= int64(least) && (len(pids) == 0 || slices.Contains(pids, uint(o.PID))) {
			s.Calls = append(s.Calls, c)
		}
	}
	return s
}

// stuckCallOf computes the durations of an open call.
func stuckCallOf(o wire.PendingCall, now time.Time) wire.StuckCall {
	c := wire.StuckCall{PendingCall: o}
	if !o.Since.IsZero() {
		c.OpenNS = int64(now.Sub(o.Since))
	}
	if !o.StateSince.IsZero() {
		c.StateNS = max(0, int64(now.Sub(o.StateSince))) // it may have begun after the state's time
	}
	return c
}

func rollOf(r *wire.PendingCollective, now time.Time) wire.StuckCollective {
	x := wire.StuckCollective{Collective: r.Collective, WaitNS: max(0, int64(now.Sub(r.Since)))}
	for _, m := range r.Missing {
		x.Missing = append(x.Missing, wire.StuckRank{Rank: m.Rank, Lives: m.Lives, Call: stuckCallOf(m.PendingCall, now), At: m.At, Instead: m.Instead})
	}
	return x
}

// concerns reports whether a rank of the communicator is one of pids; nil: all.
func concerns(r *wire.StuckCollective, pids []uint) bool {
	return len(pids) == 0 || slices.ContainsFunc(r.Entered, func(x wire.EnteredRank) bool { return slices.Contains(pids, uint(x.PID)) }) ||
		slices.ContainsFunc(r.Missing, func(x wire.StuckRank) bool { return slices.Contains(pids, uint(x.Call.PID)) })
}

// appendCollective formats a collective with missing ranks for a person.
func appendCollective(b *strings.Builder, r *wire.StuckCollective) {
	for i, l := range explain.Wrap(oneLine(r.Text), 80-2) {
		fmt.Fprintf(b, "%s%s\n", []string{"", "  "}[min(i, 1)], l)
	}
	for i := range r.Missing {
		m := &r.Missing[i]
		line := fmt.Sprintf("%s (%d) ", m.Call.Comm, m.Call.PID)
		if m.Rank >= 0 {
			line = fmt.Sprintf("rank %d ", m.Rank) + line
		}
		switch {
		case !m.Lives:
			line += m.Instead
		case m.Call.Op == "":
			line += "between calls: " + threadText(&m.Call)
		default:
			line += m.Call.Op + " for " + explain.Duration(m.Call.OpenNS) + ": " + threadText(&m.Call)
		}
		if m.At != "" && m.Call.Op != "" {
			line += ", at " + m.At
		} else if m.At != "" && m.Lives {
			line += "; its last collective was made at " + m.At
		}
		for j, l := range explain.Wrap(oneLine(line), 80-6) {
			fmt.Fprintf(b, "%s%s\n", []string{"  ", "      "}[min(j, 1)], l)
		}
	}
}

// stuckText formats the list for a person.
func stuckText(s *wire.Stuck) string {
	var b strings.Builder
	for i := range s.RollCalls {
		appendCollective(&b, &s.RollCalls[i])
	}
	switch n := len(s.Calls); n {
	case 0:
		fmt.Fprintf(&b, "No call has been open for %s or more.\n", explain.Duration(s.MinNS))
	case 1:
		b.WriteString("1 call has not returned\n")
	default:
		fmt.Fprintf(&b, "%d calls have not returned\n", n)
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		line := fmt.Sprintf("  %s (%d)  %s for %s", c.Comm, c.PID, c.Op, explain.Duration(c.OpenNS))
		if c.Inner != "" {
			line += ", in " + c.Inner
		}
		fmt.Fprintf(&b, "%s\n", oneLine(line))
		for _, l := range explain.Wrap(oneLine(threadText(c)), 80-6) {
			fmt.Fprintf(&b, "      %s\n", l)
		}
	}
	if s.More > 0 {
		fmt.Fprintf(&b, "  and %d shorter ones\n", s.More)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "Note: %s\n", oneLine(p))
	}
	return b.String()
}

// threadText describes what the call's thread does.
func threadText(c *wire.StuckCall) string {
	s := "it"
	if c.TID != c.PID {
		s = fmt.Sprintf("thread %d", c.TID)
		if c.Thread != "" {
			s += " (" + c.Thread + ")"
		}
	}
	lasts := ""
	if c.StateNS > 0 {
		lasts = " for " + explain.Duration(c.StateNS)
	}
	switch c.State {
	case "on-cpu":
		return s + fmt.Sprintf(" runs on CPU %d", c.CPU) + lasts
	case "runnable":
		s += fmt.Sprintf(" has been waiting for CPU %d", c.CPU) + lasts
		if h := c.OnCPU; h != nil {
			s += fmt.Sprintf(", which %s (%d) uses", h.Comm, h.PID)
		}
		return s
	case "throttled":
		return s + " is throttled by the CPU quota of its cgroup" + lasts
	}
	if c.Syscall == "" {
		return s + " waits: " + c.Reason + lasts
	}
	s += " is in " + c.Syscall
	if what := fileText(c); what != "" {
		s += "(" + what + ")"
	}
	return s + lasts + ", waiting for " + explain.Reason(c.Reason)
}

// fileText describes the file of a system call.
func fileText(c *wire.StuckCall) string {
	switch {
	case c.Path != "":
		return c.Path
	case c.FD < 0:
		return ""
	}
	s := fmt.Sprintf("file descriptor %d", c.FD)
	if c.File != "" {
		s += ", a " + c.File
	}
	return s
}
