package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/privilege"
	"ingero/internal/proc"
	"ingero/internal/tick"
	"ingero/internal/where"
)

func runCommand(e *Env) *cobra.Command {
	output := ""
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT]...",
		Short: "Run a program and trace it from its first CUDA call",
		Long: `run starts COMMAND and traces the program and its children from their first call. Under
sudo, the program runs as you, with your groups, home and environment, not as root.

The program keeps the terminal, its input and its output. When it ends, run writes a
report to standard error, or to --output. run exits with the program's exit code: 128 + N
if signal N ended the program, 126 if it cannot be executed, 127 if the command does not
exist. run forwards the signals it receives to the program.`,
		Example: `  sudo ingero run -- python train.py --epochs 1
  sudo ingero run --json --output calls.jsonl -- ./train`,
	}
	flags := config.Bind(c)
	c.Flags().StringVarP(&output, "output", "o", "", "file for the report or the lines of --json, such as /dev/fd/3 (default: standard error)")
	c.Flags().SetInterspersed(false) // flags after the command belong to the command
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("ingero run -- python train.py", "no command given")
		}
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.runProgram(c.Context(), s, output, args)
	}
	return c
}

// runProgram starts and traces a program. It forwards signals to the program; only the
// program's end or --duration ends the trace.
func (e *Env) runProgram(ctx context.Context, c *config.Config, output string, args []string) (err error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	o, err := e.live(c, where.Selector{}) // the program is traced wherever it runs
	if err != nil {
		return err
	}
	out, err := e.reportTo(output)
	if err != nil {
		return err
	}
	if out != e.Stderr && out != e.Stdout {
		defer func() { _ = out.Close() }() // the view has reported errors
	}
	v := e.programView(c, out, stop)
	x, err := e.exports(ctx, c, o.Log, v.printLine)
	if err != nil {
		return err
	}
	defer x.end(&err)
	program, err := e.launch(args)
	if err != nil {
		return launchProblem(args[0], err)
	}
	o.Select, o.Gated, o.Notify = proc.Selector{PIDs: []uint32{program.pid()}}, program.pid(), v.notify
	t, err := e.open(ctx, recordTo(c), o)
	if err != nil {
		program.kill() // it has not run yet
		return err
	}
	rec, err := e.record(t, c, "run", shown(o.Cmdline, args), v.printLine)
	if err != nil {
		program.kill()
		return errors.Join(err, t.close())
	}
	t.quiet, t.hidden, t.exports, t.alive = deadband(c), e.chainFilter(c), x.state, x.alive
	if c.Trace.Duration > 0 {
		ctx, stop = context.WithTimeout(ctx, c.Trace.Duration)
		defer stop()
	}
	seen := &collector{lastTickOnly: true, gaps: tick.Gaps{}}
	sinks := append(x.sinks, seen)
	if c.Trace.JSON || c.Trace.Verbose {
		sinks = append(sinks, v)
	}
	program.run()
	go func() { <-program.ended; stop() }()
	err = t.run(ctx, rec, sinks...)
	if err == nil && !c.Trace.JSON {
		err = e.printReport(out, seen.input(c.Node, rec.path()), explain.Tables, e.zone(false))
	}
	err = errors.Join(err, v.failed(), rec.end(nil))
	code := program.exit()
	if err != nil { // the program's exit code takes precedence
		report(e.Stderr, err, e.debug)
	}
	return exitCode(code)
}

// programView returns the view of a trace whose program uses the terminal.
func (e *Env) programView(c *config.Config, out *os.File, stop context.CancelFunc) *view {
	v := e.view(c.Trace.JSON, c.Trace.Verbose, out, stop)
	if c.Debug {
		v.debug = e.Stderr
	}
	v.named = true // the user knows what is traced
	v.side = e.Stderr
	return v
}

// reportTo opens the destination of the report.
func (e *Env) reportTo(path string) (*os.File, error) {
	if path == "" {
		return e.Stderr, nil
	}
	out, err := e.overwrite(path)
	if err != nil {
		return nil, &problem{What: "--output: " + err.Error(), Do: "name a writable file", Code: exitUsage, Err: err}
	}
	return out, nil
}

// printReport writes the report as text.
func (e *Env) printReport(out *os.File, in *explain.Input, detail explain.Detail, zone *time.Location) error {
	o := explain.Options{Location: zone, Detail: detail, NoTruncate: !isTerminal(out, e.Getenv), Color: isTerminal(out, e.Getenv) && e.Getenv("NO_COLOR") == ""}
	text := strings.TrimRight(explain.Report(in, o), "\n") + "\n"
	if _, err := io.WriteString(out, text); err != nil && !gone(err) {
		return &problem{What: "cannot write the report: " + err.Error(), Do: "the recording is kept: run ingero explain", Err: err}
	}
	return nil
}

// launch starts a program as the invoker, stopped before its first instruction.
func (e *Env) launch(args []string) (*launched, error) {
	who := e.invoker()
	env := who.environment(os.Environ(), sudoEnvironment())
	path, err := lookPath(args[0], env)
	if err != nil {
		return nil, err
	}
	program, err := launch(&exec.Cmd{
		Path: path, Args: args, Env: env, Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr,
		SysProcAttr: who.attributes(),
	})
	if err != nil {
		return nil, err
	}
	if err := privilege.NoCores(); err != nil { // not earlier: the program keeps the user's limit
		program.kill()
		return nil, err
	}
	return program, nil
}

// lookPath finds a command in the PATH of env, which may differ from this process's PATH.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	at := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if at < 0 {
		return "", exec.ErrNotFound
	}
	for _, dir := range filepath.SplitList(env[at][len("PATH="):]) {
		if !filepath.IsAbs(dir) {
			continue // do not run a file of the current directory by accident
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
