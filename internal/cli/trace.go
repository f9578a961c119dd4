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
		Short: "Trace the CUDA calls of live processes: show them, and record them",
		Long: `trace attaches to processes that use CUDA, those that run and those that start
later, with their children. The processes are not changed and not restarted.

Without --pid and --user it traces the processes of the person who runs it; of
everybody when that is root itself. --pod, --namespace, --container, --cgroup and
--job leave out those that are elsewhere; with them alone it does not matter whose the
processes are. What pods are called is known to Kubernetes: --kubelet, --kube-api.

It ends with Ctrl-C, after --duration, or when
the processes of --pid have ended, and keeps what it has recorded in any case.

One trace at a time runs on a machine.

On a terminal it fills the screen with a table once it sees calls, and takes keys. It does
not with --json or --verbose, with --debug, where TERM is dumb, or where standard input and
output are not the same terminal.

` + keysHelp(),
		Example: `  sudo ingero trace                      your processes
  sudo ingero trace --pid 4821,5032      these two
  sudo ingero trace --user all           everybody's
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
	x, err := e.exports(ctx, c, o.Log, v.say)
	if err != nil {
		return err
	}
	defer x.end(&err)
	t, err := e.open(ctx, recordTo(c), o)
	if err != nil {
		return err
	}
	rec, err := e.record(c, "trace", targetText(&o), v.say)
	if err != nil {
		return errors.Join(err, t.close())
	}
	t.quiet, t.hider, t.exports = quiet(c), e.hidden(c), x.state
	t.rec, t.manager = rec, manager
	defer e.reloadable(t, c, v.say)()
	v.waitsFor(&o, late)
	if c.Trace.Duration > 0 {
		ctx, stop = context.WithTimeout(ctx, c.Trace.Duration)
		defer stop()
	}
	seen := &collector{told: true}
	if err = errors.Join(t.run(ctx, rec, append(x.sinks, v, seen)...), v.failed()); err == nil {
		v.say(summary(&seen.last))
	}
	return errors.Join(err, rec.end(v.say))
}

// selector returns which processes to trace.
func (e *Env) selector(ctx context.Context, c *config.Config) (proc.Selector, error) {
	if c.Trace.NoFollow && len(c.Trace.PIDs) == 0 {
		return proc.Selector{}, usage("ingero trace --no-follow --pid PID", "--no-follow needs the processes to be named")
	}
	user := c.Trace.User
	if c.Trace.Place != (config.Place{}) && user == "" && len(c.Trace.PIDs) == 0 {
		user = "all" // programs of a container run as whomever its image says
	}
	if c.Trace.Place != (config.Place{}) && len(c.Trace.PIDs) > 0 {
		return proc.Selector{}, usage("ingero trace --pid PID, or --pod POD", "--pid says which processes: --pod, --namespace, --container, --cgroup and --job do not go with it")
	}
	sel, err := proc.Select(ctx, c.Trace.PIDs, user, e.invoker().UID)
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

// waitText says what a trace waits for that has found nothing yet.
func waitText(o *session.LiveOptions, late []proc.Process) string {
	var who []string
	for i := range late {
		who = append(who, fmt.Sprintf("%s (%d)", late[i].Comm, late[i].PID))
	}
	switch {
	case len(who) > 0:
		return strings.Join(who, ", ") + " has not loaded CUDA yet: waiting for it. Ctrl-C ends the trace"
	case o.Place != (where.Selector{}):
		return "No process of " + targetText(o) + " uses CUDA yet: waiting for one. Ctrl-C ends the trace"
	case o.Select.All:
		return "No process uses CUDA yet: waiting for one. Ctrl-C ends the trace"
	}
	return fmt.Sprintf("No process of user %d uses CUDA yet: waiting for one (--user all: anybody's). Ctrl-C ends the trace", o.Select.UIDs[0])
}

// gone tells whether an output failed because its reader has gone.
func gone(err error) bool { return errors.Is(err, unix.EPIPE) }
