package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/lock"
)

// stuck is what the stuck command says.
type stuck struct {
	Updated time.Time   `json:"updated"` // as of when
	MinNS   int64       `json:"min_ns"`
	Calls   []stuckCall `json:"calls"` // the longest first
	More    int         `json:"more,omitempty"`
	// Problems are why the list may not be right.
	Problems []string `json:"problems,omitempty"`
}

// stuckCall is a call that has not returned.
type stuckCall struct {
	lock.OpenCall
	OpenNS  int64      `json:"open_ns"`            // for how long, as of updated
	StateNS int64      `json:"state_ns,omitempty"` // likewise
	Path    string     `json:"path,omitempty"`     // of the file that FD is
	OnCPU   *cpuHolder `json:"cpu_holder,omitempty"`
}

func stuckCommand(e *Env) *cobra.Command {
	var pids []uint
	least, asJSON := "1s", false
	c := &cobra.Command{
		Use:   "stuck",
		Short: "List the calls that have not returned, and what each waits for",
		Long: `stuck asks the ingero that traces this machine which CUDA calls have not returned, and
says what their threads do: run, wait for a CPU that somebody else has, or wait for a
lock, a file, a socket, a disk. It needs a running trace (sudo ingero trace) and shows
what that has told of itself in the last second; the path of a file and who has a CPU it
looks up now, as far as whoever asks may know.

It ends with 0 when no call is stuck, 3 when one is, and 1 when nothing traces.`,
		Example: "  ingero stuck\n  ingero stuck --min 10s --json\n  watch -n 1 ingero stuck",
		Args:    noArguments,
	}
	f := c.Flags()
	f.StringVar(&least, "min", least, "calls that have been open for this long")
	f.UintSliceVarP(&pids, "pid", "p", nil, "of these processes only: 4821 or 4821,5032")
	f.BoolVar(&asJSON, "json", false, "print it as JSON")
	c.RunE = func(*cobra.Command, []string) error {
		d, err := config.ParseDuration(least)
		if err != nil || d < openFor {
			return usage("ingero stuck --min 10s", "--min cannot be %q: it must be a duration of %s or more", least, explain.Duration(int64(openFor)))
		}
		s, err := e.lookAtCalls(time.Now(), d, pids)
		if err != nil {
			return err
		}
		if asJSON {
			enc := json.NewEncoder(e.Stdout)
			enc.SetIndent("", "  ")
			err = enc.Encode(s)
		} else {
			err = e.printf("%s", s.text())
		}
		if err == nil && len(s.Calls) > 0 {
			return exitCode(exitStuck)
		}
		return err
	}
	return c
}

// lookAtCalls asks the running trace, and looks up what it has not told.
func (e *Env) lookAtCalls(now time.Time, least time.Duration, pids []uint) (*stuck, error) {
	st, err := lookAtTrace(e.Lock, now)
	switch {
	case err != nil:
		return nil, err
	case !st.Running:
		return nil, &problem{What: "nothing traces this machine, so it is not known which calls are open", Do: "start a trace, and ask again: sudo ingero trace"}
	case st.Trace.Updated.IsZero():
		return nil, &problem{What: "what the trace tells of itself cannot be read", Do: "it is just starting, or in a container: ask again, or as root"}
	}
	s := stuckOf(st.Trace, now, least, pids)
	for i := range s.Calls {
		look(&s.Calls[i])
	}
	s.Calls = slices.DeleteFunc(s.Calls, func(c stuckCall) bool { return !threadLives(c.PID, c.TID) })
	return s, nil
}

// stuckOf picks the calls that are asked for.
func stuckOf(t *lock.State, now time.Time, least time.Duration, pids []uint) *stuck {
	s := &stuck{Updated: t.Updated, MinNS: int64(least), Calls: []stuckCall{}, More: t.MoreOpen}
	if age := now.Sub(t.Updated); age > silence {
		s.Problems = append(s.Problems, fmt.Sprintf("the trace has said nothing for %s: this may be over", explain.Duration(int64(age))))
	}
	for _, o := range t.Open {
		c := stuckCall{OpenCall: o, OpenNS: int64(t.Updated.Sub(o.Since))}
		if !o.StateSince.IsZero() {
			c.StateNS = max(0, int64(t.Updated.Sub(o.StateSince))) // it may have begun while the trace looked
		}
		if c.OpenNS >= int64(least) && (len(pids) == 0 || slices.Contains(pids, uint(o.PID))) {
			s.Calls = append(s.Calls, c)
		}
	}
	return s
}

// text writes the list for a person.
func (s *stuck) text() string {
	var b strings.Builder
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
		for _, l := range explain.Wrap(oneLine(c.does()), 80-6) {
			fmt.Fprintf(&b, "      %s\n", l)
		}
	}
	if s.More > 0 {
		fmt.Fprintf(&b, "  and %d more that are shorter\n", s.More)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "Note: %s\n", oneLine(p))
	}
	return b.String()
}

// does says what the call's thread does.
func (c *stuckCall) does() string {
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
			s += fmt.Sprintf(", which %s (%d) has", h.Comm, h.PID)
		}
		return s
	case "throttled":
		return s + " is held back by the CPU quota of its cgroup" + lasts
	}
	if c.Syscall == "" {
		return s + " waits: " + c.Reason + lasts
	}
	s += " is in " + c.Syscall
	if what := c.on(); what != "" {
		s += "(" + what + ")"
	}
	return s + lasts + ", waiting for " + explain.Reason(c.Reason)
}

// on says on what file a system call is.
func (c *stuckCall) on() string {
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
