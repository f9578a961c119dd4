package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/proc"
	"ingero/internal/service"
	"ingero/internal/session"
	"ingero/internal/where"
)

func traceCommand(e *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "trace",
		Short: "Trace the CUDA calls of running processes, show them and record them",
		Long: `trace attaches to processes that use CUDA and to their children, now and whenever a new
one starts. It neither changes nor restarts the processes.

Without --pid and --user, trace covers the processes of the user who runs it; for root
itself, those of all users. --pod, --namespace, --container, --cgroup and --job narrow
the selection down; used alone, they select processes of all users. Kubernetes supplies
the names of pods: set --kubelet or --kube-api.

trace ends on Ctrl-C, after --duration, or when the processes of --pid, and their
children that use CUDA, have ended. A child has 30 seconds to begin to use CUDA, and
longer if no process has used it yet. trace keeps its recording in all cases.

Only one trace can run on a machine at a time.

On a terminal, trace shows a full-screen table after the first calls, and reads keys.
It does not with --json, --verbose or --debug, if TERM is dumb, or if standard input and
standard output are not the same terminal.

` + keysHelp(),
		Example: `  sudo ingero trace                      your processes
  sudo ingero trace --pid 4821,5032      these two processes
  sudo ingero trace --user all           the processes of all users
  sudo ingero trace --container 3f2b8c1d9e7a
  sudo ingero trace --namespace ml --kubelet https://127.0.0.1:10250
  sudo ingero trace --duration 60s --json > calls.jsonl`,
		Args: noArguments,
	}
	e.withSettings(c, e.trace)
	return c
}

func (e *Env) trace(ctx context.Context, c *config.Config) (err error) {
	o, err := e.live(c, place(c))
	if err != nil {
		return err
	}
	if o.Select, err = e.selector(ctx, c); err != nil {
		return err
	}
	late, err := checkPIDs(o.Select.PIDs, o.Names)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := e.view(c.Trace.JSON, c.Trace.Verbose, e.Stdout, stop)
	defer v.end()
	manager := service.FromEnvironment(e.Getenv, os.Getpid())
	o.Notify, v.service = v.notify, manager.There()
	if c.Debug {
		v.debug = e.Stderr
	}
	x, err := e.exports(ctx, c, o.Log, v.printLine)
	if err != nil {
		return err
	}
	defer x.end(&err)
	t, err := e.open(ctx, recordTo(c), o)
	if err != nil {
		return err
	}
	rec, err := e.record(t, c, "trace", targetText(&o), v.printLine)
	if err != nil {
		return errors.Join(err, t.close())
	}
	t.quiet, t.hidden, t.exports, t.alive = deadband(c), e.chainFilter(c), x.state, x.alive
	t.rec, t.manager = rec, manager
	defer e.reloadable(t, c, v.printLine)()
	v.waitsFor(&o, late)
	if c.Trace.Duration > 0 {
		ctx, stop = context.WithTimeout(ctx, c.Trace.Duration)
		defer stop()
	}
	seen := &collector{lastTickOnly: true}
	if err = errors.Join(t.run(ctx, rec, append(x.sinks, v, seen)...), v.failed()); err == nil {
		v.printLine(summary(&seen.last))
	}
	return errors.Join(err, rec.end(v.printLine))
}

// selector returns the selector of the processes to trace.
func (e *Env) selector(ctx context.Context, c *config.Config) (proc.Selector, error) {
	if c.Trace.NoFollow && len(c.Trace.PIDs) == 0 {
		return proc.Selector{}, usage("ingero trace --no-follow --pid PID", "--no-follow requires --pid")
	}
	user := c.Trace.User
	if c.Trace.Place != (config.Place{}) && user == "" && len(c.Trace.PIDs) == 0 {
		user = "all" // a container's processes may have any UID
	}
	if c.Trace.Place != (config.Place{}) && len(c.Trace.PIDs) > 0 {
		return proc.Selector{}, usage("ingero trace --pid PID, or --pod POD", "--pid cannot be combined with --pod, --namespace, --container, --cgroup or --job")
	}
	sel, err := proc.Select(ctx, c.Trace.PIDs, user, e.invoker().UID)
	if errors.Is(err, proc.ErrNoUser) {
		return sel, &problem{What: err.Error(), Do: "use the name or UID of a user on this machine, or \"all\"", Code: exitUsage, Err: err}
	}
	sel.Alone = c.Trace.NoFollow
	return sel, err
}

// recordTo returns the path of the database, "" if recording is disabled.
func recordTo(c *config.Config) string {
	if !c.Trace.Record {
		return ""
	}
	return c.DB
}

// targetText describes the selected processes.
func targetText(o *session.LiveOptions) string {
	var who []string
	place := o.Place.String()
	switch {
	case len(o.Select.PIDs) > 0:
		who = append(who, "pid "+strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Select.PIDs), " ", ","), "[]"))
	case !o.Select.All:
		who = append(who, fmt.Sprintf("user %d", o.Select.UIDs[0]))
	case place == "":
		who = append(who, "all users")
	}
	if place != "" {
		who = append(who, place)
	}
	return strings.Join(who, ", ")
}

// waitText describes what a trace without processes waits for.
func waitText(o *session.LiveOptions, late []proc.Process) string {
	var who []string
	for i := range late {
		who = append(who, fmt.Sprintf("%s (%d)", late[i].Comm, late[i].PID))
	}
	switch {
	case len(who) > 0:
		return strings.Join(who, ", ") + " has not loaded CUDA yet: waiting for it. Press Ctrl-C to end the trace"
	case o.Place != (where.Selector{}):
		return "No process of " + targetText(o) + " uses CUDA yet: waiting for one. Press Ctrl-C to end the trace"
	case o.Select.All:
		return "No process uses CUDA yet: waiting for one. Press Ctrl-C to end the trace"
	}
	return fmt.Sprintf("No process of user %d uses CUDA yet: waiting for one (of any user: --user all). Press Ctrl-C to end the trace", o.Select.UIDs[0])
}

// gone reports whether err means that the reader of the output is gone.
func gone(err error) bool { return errors.Is(err, unix.EPIPE) }
