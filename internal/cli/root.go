package cli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/lock"
	"ingero/internal/privilege"
)

// Build is the version information that the linker sets.
type Build struct{ Version, Commit, Date string }

// Env is the environment of a command.
type Env struct {
	Args                  []string
	Stdin, Stdout, Stderr *os.File
	Getenv                func(string) string
	Build                 Build
	Lock                  lock.Place       // zero value: the machine's lock
	Now                   func() time.Time // clock of reading commands; nil: time.Now
	Zone                  *time.Location   // zone of times that those commands show; nil: the machine's

	debug     bool                           // --debug
	served    string                         // database of a server, the same until it ends; "": not chosen
	logOutput *logOutput                     // destination of log lines; nil: Stderr
	hangup    *hangup                        // handler of SIGHUP; nil: the embedding program handles it
	again     func() (*config.Config, error) // reloads the settings; nil: no settings loaded
	releases  string                         // URL of the latest release, for tests; empty: update.Releases
	client    *http.Client                   // HTTP client of the update check; nil: that of package update
	keyFile   string                         // file of the dashboard's key, for tests; empty: the user's
	forced    []int                          // steps of govern.Steps that are always shed, for tests
}

// commands lists the constructors of the commands.
var commands = []func(*Env) *cobra.Command{
	checkCommand,
	traceCommand,
	runCommand,
	explainCommand,
	diffCommand,
	replayCommand,
	summaryCommand,
	queryCommand,
	sqlCommand,
	stuckCommand,
	topCommand,
	exportCommand,
	reportCommand,
	mergeCommand,
	backupCommand,
	dbCommand,
	silenceCommand,
	annotateCommand,
	dashboardCommand,
	mcpCommand,
	demoCommand,
	statusCommand,
	configCommand,
	completionCommand,
	xidCommand,
	versionCommand,
	hogCommand,
}

// Main runs the command line and returns the exit code.
func Main(e Env) int {
	if err := e.privileges(); err != nil {
		return report(e.Stderr, err, false)
	}
	e.hangup = &hangup{}
	ctx, stop := e.hangup.signals()
	defer stop()
	// Catch SIGPIPE, so that a closed output is a write error and a trace ends as usual. Do not
	// ignore it: children inherit ignored signals.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, unix.SIGPIPE)
	defer signal.Stop(pipe)
	return e.run(ctx)
}

func (e *Env) run(ctx context.Context) int {
	if len(e.Lock.Dirs) == 0 {
		e.Lock = lock.Host()
	}
	e.logOutput = &logOutput{out: e.Stderr}
	root := e.root()
	runs := false
	var news *updateCheck
	root.PersistentPreRun = func(c *cobra.Command, _ []string) { runs, news = true, e.checkForUpdate(ctx, c) }
	err := root.ExecuteContext(ctx)
	defer news.print(e)
	if err != nil && !runs { // cobra rejected the command line
		err = usageProblem(err)
	}
	return report(e.Stderr, err, e.debug)
}

// tracers lists the commands that inspect other processes or the kernel. All others need only
// their user's permissions.
var tracers = map[string]bool{"trace": true, "run": true, "check": true, "demo": true, "xid": true, "stuck": true}

// privileges keeps the program file's capabilities for the commands that need them, and drops
// them for all others. Otherwise, any user who may start the program could read protected files.
func (e *Env) privileges() error {
	c, _, err := e.root().Find(e.Args)
	for err == nil && c.HasParent() && c.Parent().HasParent() {
		c = c.Parent()
	}
	switch {
	case err == nil && c.Name() == "annotate": // it becomes the user's program
		return privilege.Forget()
	case err != nil || !tracers[c.Name()]:
		return privilege.Drop()
	}
	if err := privilege.Keep(); err != nil || c.Name() == "run" { // launch calls NoCores
		return err
	}
	return privilege.NoCores()
}

// root returns the tree of commands.
func (e *Env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "ingero",
		Short: "Why was this GPU job slow, and who did it?",
		Long: `ingero attaches to running processes with eBPF and shows, for every CUDA call,
where its time went. No change to the program, no restart, no CUPTI.

  sudo ingero trace         trace the running processes and record them
  ingero explain            explain the recording`,
		Version:           e.Build.number(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // completionCommand replaces it
	}
	root.SetArgs(e.Args)
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetVersionTemplate(e.Build.line())
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(c.CommandPath()+" --help lists the flags", "%v", err)
	})
	for _, command := range commands {
		root.AddCommand(command(e))
	}
	return root
}

// usageProblem converts cobra's error to a problem.
func usageProblem(err error) error {
	if _, ok := err.(*problem); ok {
		return err
	}
	what, more, _ := strings.Cut(err.Error(), "\n")
	do := "ingero --help lists the commands"
	if _, meant, ok := strings.Cut(more, "Did you mean this?\n"); ok {
		do = "did you mean " + strings.Join(strings.Fields(meant), " or ") + "? " + do
	}
	return &problem{What: strings.TrimSuffix(what, ` for "ingero"`), Do: do, Code: exitUsage, Err: err}
}

// noArguments rejects arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(c.CommandPath()+" --help shows the usage", "%s takes no arguments, but got %q", c.CommandPath(), args[0])
	}
	return nil
}

// printf writes to standard output and returns the write error.
func (e *Env) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.Stdout, format, args...)
	return err
}
