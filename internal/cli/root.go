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

// Build is what the linker knows of this binary.
type Build struct{ Version, Commit, Date string }

// Env is what a command has of the world around it.
type Env struct {
	Args                  []string
	Stdin, Stdout, Stderr *os.File
	Getenv                func(string) string
	Build                 Build
	Lock                  lock.Place       // the zero value is the machine's
	Now                   func() time.Time // nil: the clock's. Of commands that read
	Zone                  *time.Location   // in which people are told times by those; nil: the machine's

	debug    bool                           // --debug
	aside    *aside                         // where log lines go; nil: to Stderr
	hangup   *hangup                        // what SIGHUP does; nil: as the program that this is a part of says
	again    func() (*config.Config, error) // reads the settings anew; nil: none were read
	releases string                         // where the newest release is told; empty: update.Releases. Of tests
	client   *http.Client                   // that asks; nil: that of package update
	keyFile  string                         // of the dashboard's certificates; empty: that of the user. Of tests
	forced   []int                          // steps of govern.Steps that a trace takes whatever it costs. Of tests
}

// commands are the rows of the command line.
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
	// A reader of the output that has gone is an error of writing, so that a
	// trace ends as it always does. Caught, not ignored: children inherit that.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, unix.SIGPIPE)
	defer signal.Stop(pipe)
	return e.run(ctx)
}

func (e *Env) run(ctx context.Context) int {
	if len(e.Lock.Dirs) == 0 {
		e.Lock = lock.Host()
	}
	e.aside = &aside{out: e.Stderr}
	root := e.root()
	runs := false
	var news *news
	root.PersistentPreRun = func(c *cobra.Command, _ []string) { runs, news = true, e.askNews(ctx, c) }
	err := root.ExecuteContext(ctx)
	defer news.tell(e)
	if err != nil && !runs { // cobra refused the command line
		err = wordsUsage(err)
	}
	return report(e.Stderr, err, e.debug)
}

// tracers are the commands that look into other processes and the kernel. All others
// need no more than their user may do.
var tracers = map[string]bool{"trace": true, "run": true, "check": true, "demo": true, "xid": true, "stuck": true}

// privileges keeps the capabilities that the program's file has for the commands that
// need them, and lets go of them for all others: who may start it must not read by it
// what only they can.
func (e *Env) privileges() error {
	c, _, err := e.root().Find(e.Args)
	for err == nil && c.HasParent() && c.Parent().HasParent() {
		c = c.Parent()
	}
	if err == nil && tracers[c.Name()] {
		return privilege.Keep()
	}
	return privilege.Drop()
}

// root makes the tree of commands.
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
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true}, // there is our own
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

// wordsUsage gives cobra's complaint the form of all errors.
func wordsUsage(err error) error {
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

// noArguments refuses whatever stands behind the flags.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(c.CommandPath()+" --help shows the usage", "%s takes no arguments, but got %q", c.CommandPath(), args[0])
	}
	return nil
}

// printf writes to standard output; that it could not is the command's error.
func (e *Env) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.Stdout, format, args...)
	return err
}
