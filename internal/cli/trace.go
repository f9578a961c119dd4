package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/proc"
	"ingero/internal/session"
)

func traceCommand(e *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Trace the CUDA calls of live processes: show them, and record them",
		Long: `trace attaches to processes that use CUDA, those that run and those that start
later, with their children. The processes are not changed and not restarted.

Without --pid and --user it traces the processes of the person who runs it; of
everybody when that is root itself. It ends with Ctrl-C, after --duration, or when
the processes of --pid have ended, and keeps what it has recorded in any case.

One trace at a time runs on a machine.`,
		Example: `  sudo ingero trace                      your processes
  sudo ingero trace --pid 4821,5032      these two
  sudo ingero trace --user all           everybody's
  sudo ingero trace --duration 60s --json > calls.jsonl`,
		Args: noArguments,
	}
	flags := config.Bind(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.trace(c.Context(), s)
	}
	return c
}

func (e *Env) trace(ctx context.Context, c *config.Config) error {
	lib, err := names(c)
	if err != nil {
		return err
	}
	sel, err := e.selector(ctx, c)
	if err != nil {
		return err
	}
	late, err := checkPIDs(sel.PIDs, lib)
	if err != nil {
		return err
	}
	log := e.logger(c.Debug)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := e.view(c.Trace.JSON, c.Trace.Verbose, e.Stdout, stop)
	if c.Debug {
		v.debug = e.Stderr
	}
	t, err := e.open(ctx, recordTo(c), session.LiveOptions{
		Select: sel, Names: lib, Probes: probeOptions(c), Alone: c.Trace.NoFollow, ProbeBudget: c.Trace.ProbeBudget, Notify: v.notify, Log: log,
	})
	if err != nil {
		return err
	}
	rec, err := e.record(c, "trace", targetText(sel), v.say)
	if err != nil {
		return errors.Join(err, t.close())
	}
	v.waitsFor(sel, late)
	if c.Trace.Duration > 0 {
		ctx, stop = context.WithTimeout(ctx, c.Trace.Duration)
		defer stop()
	}
	seen := &collector{}
	if err = errors.Join(t.run(ctx, rec, v, seen), v.failed()); err == nil {
		v.say(summary(&seen.last))
	}
	return errors.Join(err, rec.end(v.say))
}

// selector returns which processes to trace.
func (e *Env) selector(ctx context.Context, c *config.Config) (proc.Selector, error) {
	if c.Trace.NoFollow && len(c.Trace.PIDs) == 0 {
		return proc.Selector{}, usage("ingero trace --no-follow --pid PID", "--no-follow needs the processes to be named")
	}
	sel, err := proc.Select(ctx, c.Trace.PIDs, c.Trace.User, e.invoker().UID)
	if errors.Is(err, proc.ErrNoUser) {
		return sel, &problem{What: err.Error(), Do: "give a name or a number of this machine, or \"all\"", Code: exitUsage, Err: err}
	}
	sel.Alone = c.Trace.NoFollow
	return sel, err
}

// recordTo returns the path of the database, "" when nothing is recorded.
func recordTo(c *config.Config) string {
	if !c.Trace.Record {
		return ""
	}
	return c.DB
}

// targetText says which processes a recording is of.
func targetText(sel proc.Selector) string {
	switch {
	case len(sel.PIDs) > 0:
		return "pid " + strings.Trim(strings.ReplaceAll(fmt.Sprint(sel.PIDs), " ", ","), "[]")
	case sel.All:
		return "all users"
	}
	return fmt.Sprintf("user %d", sel.UIDs[0])
}

// waitText says what a trace waits for that has found nothing yet.
func waitText(sel proc.Selector, late []proc.Process) string {
	var who []string
	for i := range late {
		who = append(who, fmt.Sprintf("%s (%d)", late[i].Comm, late[i].PID))
	}
	switch {
	case len(who) > 0:
		return strings.Join(who, ", ") + " has not loaded CUDA yet: waiting for it. Ctrl-C ends the trace"
	case sel.All:
		return "No process uses CUDA yet: waiting for one. Ctrl-C ends the trace"
	}
	return fmt.Sprintf("No process of user %d uses CUDA yet: waiting for one (--user all: anybody's). Ctrl-C ends the trace", sel.UIDs[0])
}

// gone tells whether an output failed because its reader has gone.
func gone(err error) bool { return errors.Is(err, unix.EPIPE) }
