package cli

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
)

// withSettings has a command that takes nothing but settings run.
func (e *Env) withSettings(c *cobra.Command, run func(context.Context, *config.Config) error) {
	flags := config.Bind(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return run(c.Context(), s)
	}
}

// settings puts the layers of settings together for a command with these flags.
func (e *Env) settings(flags *config.Flags) (*config.Config, error) {
	in, err := e.inputs(flags)
	if err != nil {
		return nil, err
	}
	c, err := config.Load(in)
	if err == nil {
		e.debug = c.Debug
		if c.Unread != "" {
			e.note("Note: ignoring %s: root does not read a config file that others may have written; to read it: --config %s", c.Unread, c.Unread)
		}
		e.again = func() (*config.Config, error) { return config.Load(in) }
	}
	return c, err
}

// inputs are what settings depend on.
func (e *Env) inputs(flags *config.Flags) (config.Inputs, error) {
	who := e.invoker()
	cwd, err := os.Getwd()
	if err != nil {
		return config.Inputs{}, &problem{What: "the current directory no longer exists", Do: "change to an existing directory", Err: err}
	}
	host, err := os.Hostname()
	return config.Inputs{
		Getenv: e.Getenv, Flags: flags.Given(), UID: os.Geteuid(), Caller: int(who.UID),
		Home: e.home(), Cwd: cwd, Hostname: host, Container: e.inContainer(),
	}, err
}

// home is the folder of the person behind the command, "" where there is none.
func (e *Env) home() string {
	who := e.invoker()
	if h := e.Getenv("HOME"); !who.Sudo && h != "" {
		return h
	}
	return who.Home
}

// inContainer tells whether this process lives in a container, by what Docker,
// Podman, Kubernetes and systemd leave there.
func (e *Env) inContainer() bool {
	for _, path := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return e.Getenv("KUBERNETES_SERVICE_HOST") != "" || e.Getenv("container") != ""
}

// log is where lines of the log go.
func (e *Env) log() io.Writer {
	if e.aside == nil {
		return e.Stderr
	}
	return e.aside
}

// logger returns the log of a command: warnings, and everything with --debug.
func (e *Env) logger(debug bool) *slog.Logger {
	level := slog.LevelWarn
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(newLogLines(e.log(), level))
}

// names returns which files are CUDA libraries.
func names(c *config.Config) (proc.Names, error) {
	var n proc.Names
	for _, path := range c.Trace.CudaLibs {
		g, err := proc.Identify(path)
		if err != nil {
			return proc.Names{}, &problem{What: "--cuda-lib: " + err.Error(), Do: "name the path of a libcudart, libcuda or libnccl that a process loads", Code: exitUsage, Err: err}
		}
		n.Given = append(n.Given, g)
	}
	return n, nil
}

// stackPolicies are those of a setting; true is what older versions called it.
var stackPolicies = map[string]probes.StackPolicy{
	"slow": probes.StacksSlow, "true": probes.StacksSlow, "all": probes.StacksAll, "false": probes.StacksNone,
}

// pyUserspace has the agent read Python's functions.
const pyUserspace = "userspace"

// probeOptions returns how to probe.
func probeOptions(c *config.Config) probes.Options {
	o := probes.Options{RingBytes: int(c.Trace.RingBytes), SamplingRate: c.Trace.SamplingRate, AllWaits: c.Trace.RecordAll,
		Pages: c.Trace.Pages, NoHost: hostOff(c),
		Stacks: stackPolicies[c.Trace.Stack]}
	if c.Trace.Link != "auto" {
		o.Mode = probes.Mode(c.Trace.Link)
	}
	return o
}

// hostOff returns which parts of the host are left alone.
func hostOff(c *config.Config) (off []probes.HostPart) {
	for _, x := range []struct {
		part probes.HostPart
		off  bool
	}{{probes.HostDisk, c.Trace.NoIO}, {probes.HostTCP, c.Trace.NoTCP}, {probes.HostNet, c.Trace.NoNet}} {
		if x.off {
			off = append(off, x.part)
		}
	}
	return off
}

// quiet returns which ticks are idle.
func quiet(c *config.Config) session.Deadband {
	return session.Deadband{Percent: float64(c.Trace.Deadband), Heartbeat: c.Trace.Heartbeat}
}
