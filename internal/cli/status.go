package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/explain"
	"ingero/internal/lock"
	"ingero/internal/wire"
)

// silence is the age at which a published state is stale; recentLoss is how long a loss counts.
const (
	silence    = 5 * time.Second // a trace publishes once a second
	recentLoss = time.Minute
)

func statusCommand(e *Env) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the running trace and its health, for people and health probes",
		Long: `status finds the trace that runs on this machine, in a container or not, and shows the
state that it published in the last second. status needs no privileges.

status exits with code 0 if a trace runs and is healthy, 1 if none runs, and 3 if one
runs but loses records, does not record, or has not published its state for 5 seconds.`,
		Example: "  ingero status\n  ingero status --json | jq .trace.calls",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			now := time.Now()
			s, err := readStatus(e.Lock, now)
			if err != nil {
				return err
			}
			if asJSON {
				err = e.json(s)
			} else {
				err = e.printf("%s", statusText(s, now))
			}
			if err != nil {
				return err
			}
			return statusExit(s)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// readStatus finds the running trace and judges its state.
func readStatus(place lock.Place, now time.Time) (*wire.Status, error) {
	h, err := place.Holder()
	if err != nil {
		return nil, err
	}
	if h == nil {
		s := &wire.Status{}
		if _, err := os.ReadFile("/proc/1/status"); err != nil {
			s.Problems = []string{"/proc hides other users' processes (hidepid): only a trace of root or of this user can be found (retry as root)"}
		}
		return s, nil
	}
	state, err := place.State(*h)
	switch {
	case errors.Is(err, lock.ErrNoState):
		return judge(nil, h, now), nil
	case err != nil:
		return nil, err
	}
	return judge(&state, h, now), nil
}

// judge derives a trace's health from its published state; state is nil if it is not readable.
func judge(state *wire.TraceState, h *wire.Holder, now time.Time) *wire.Status {
	if state == nil {
		return &wire.Status{Running: true, Trace: &wire.TraceState{Holder: *h},
			Problems: []string{"cannot read the trace's state: the trace is starting, or runs in a container (retry as root)"}}
	}
	s := &wire.Status{Running: true, Trace: state, Problems: slices.Clone(state.Problems)}
	if age := now.Sub(state.Updated); age > silence {
		s.Problems = append(s.Problems, fmt.Sprintf("the trace has not published its state for %s", age.Round(time.Second)))
	}
	if !state.LastLoss.IsZero() && now.Sub(state.LastLoss) < recentLoss {
		s.Problems = append(s.Problems, "records were lost in the last minute: "+dropsText(state.Drops, ofCalls))
	}
	s.Healthy = len(s.Problems) == 0
	return s
}

// statusExit returns the exit code of a status as an error.
func statusExit(s *wire.Status) error {
	switch {
	case !s.Running:
		return exitCode(exitFailed)
	case !s.Healthy:
		return exitCode(exitDegraded)
	}
	return nil
}

// noTrace formats the status for a person if no trace was found.
func noTrace(s *wire.Status) string {
	text := "No trace is running on this machine.\n"
	if len(s.Problems) > 0 {
		text = "No trace was found.\n"
	}
	for _, p := range s.Problems {
		text += "Problem: " + oneLine(p) + "\n"
	}
	return text + "To start one: sudo ingero trace\n"
}

// statusText formats the status for a person.
func statusText(s *wire.Status, now time.Time) string {
	var b strings.Builder
	t := s.Trace
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	if !s.Running {
		return noTrace(s)
	}
	state := "healthy"
	if !s.Healthy {
		state = "degraded"
	}
	line("Trace", "pid %d, %s", t.PID, state)
	line("Command", "%s", t.Command)
	if !t.Since.IsZero() {
		line("Since", "%s (%s)", t.Since.Local().Format("2006-01-02 15:04:05"), explain.Duration(int64(now.Sub(t.Since))))
	}
	if !t.Updated.IsZero() {
		line("Processes", "%s", processesText(t.Processes))
		line("Probes", "%d in %d libraries", t.Probes, t.Libraries)
		line("Calls", "%s counted, %s recorded individually", explain.Count(t.Calls), explain.Count(t.Records))
		if untimed := slices.DeleteFunc(slices.Clone(t.Processes), func(p wire.TracedProcess) bool { return !p.Counted }); len(untimed) > 0 {
			line("Launches", "counted, not timed, to limit overhead of %s (--max-overhead)", processesText(untimed))
		}
		line("Dropped", "%s", dropsText(t.Drops, ofCalls))
		if text := dropsText(t.Drops, explain.AffectsWakers); text != nothing {
			line("Waits", "not followed further: %s", text)
		}
		if text := dropsText(t.Drops, explain.AffectsStacks); text != nothing {
			line("Stacks", "missing or truncated: %s", text)
		}
		if text := dropsText(t.Drops, explain.AffectsLabels); text != nothing {
			line("Labels", "messages refused: %s", text)
		}
		if t.Overhead != "" {
			line("Tracing", "%s", t.Overhead)
		}
		line("Own cost", "%s of CPU time, %s of memory", explain.Duration(int64(t.CPU)), explain.Bytes(t.RSS))
		if t.DB == "" {
			line("Database", "none: --record=false")
		} else {
			line("Database", "%s, %s", t.DB, explain.Bytes(t.DBBytes))
		}
	}
	for _, x := range t.Exports {
		line("Export", "%s", exportText(&x))
	}
	for _, p := range s.Problems {
		line("Problem", "%s", p)
	}
	return b.String()
}

// exportText describes the state of an export. An unreachable receiver does not make the trace
// unhealthy.
func exportText(x *wire.Export) string {
	s := fmt.Sprintf("%s to %s: %s sent", x.Name, x.To, explain.Count(x.Sent))
	for _, why := range slices.Sorted(maps.Keys(x.Lost)) {
		s += fmt.Sprintf(", %s lost (%s)", explain.Count(x.Lost[why]), why)
	}
	if x.Problem != "" {
		s += "; " + x.Problem
	}
	return s
}

func processesText(ps []wire.TracedProcess) string {
	const most = 8
	if len(ps) == 0 {
		return "none yet"
	}
	var names []string
	for _, p := range ps[:min(len(ps), most)] {
		names = append(names, fmt.Sprintf("%s (%d)", p.Comm, p.PID))
	}
	if more := len(ps) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

const nothing = "nothing"

// ofCalls reports whether a drop reason is about calls or other records, not stacks, wakers or labels.
func ofCalls(reason string) bool {
	return !explain.AffectsStacks(reason) && !explain.AffectsWakers(reason) && !explain.AffectsLabels(reason)
}

// dropsText lists the drops whose reasons of selects.
func dropsText(drops map[string]uint64, of func(reason string) bool) string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(drops)) {
		if of(reason) {
			out = append(out, fmt.Sprintf("%s %d", reason, drops[reason]))
		}
	}
	if len(out) == 0 {
		return nothing
	}
	return strings.Join(out, ", ")
}
