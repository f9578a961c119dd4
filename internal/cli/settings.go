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

// withSettings sets the run function of a command without other flags than settings.
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

// settings loads the settings for a command with these flags.
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

// inputs returns the inputs of the settings.
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

// home returns the invoker's home directory, "" if there is none.
func (e *Env) home() string {
	who := e.invoker()
	if h := e.Getenv("HOME"); !who.Sudo && h != "" {
		return h
	}
	return who.Home
}

// inContainer reports whether this process runs in a container. It looks for the marks of
// Docker, Podman, Kubernetes and systemd.
func (e *Env) inContainer() bool {
	for _, path := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return e.Getenv("KUBERNETES_SERVICE_HOST") != "" || e.Getenv("container") != ""
}

// log returns the writer for log lines.
func (e *Env) log() io.Writer {
	if e.logOutput == nil {
		return e.Stderr
	}
	return e.logOutput
}

// logger returns a command's logger: warnings only, or everything with debug.
func (e *Env) logger(debug bool) *slog.Logger {
	level := slog.LevelWarn
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(newLogLines(e.log(), level))
}

// names returns the names of CUDA libraries. A file of --cuda-lib replaces those of its kind.
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

// stackPolicies maps the values of the setting. Older versions used true for slow, and false for off.
var stackPolicies = map[string]probes.StackPolicy{
	"slow": probes.StacksSlow, "true": probes.StacksSlow, "all": probes.StacksAll, "off": probes.StacksNone, "false": probes.StacksNone,
}

// pyUserspace is the setting that reads Python's functions in user space.
const pyUserspace = "userspace"

// probeOptions converts the settings to options of the probes.
func probeOptions(c *config.Config) probes.Options {
	o := probes.Options{RingBytes: int(c.Trace.RingBytes), MaxThreads: c.Trace.MaxThreads, SamplingRate: c.Trace.SamplingRate, AllWaits: c.Trace.RecordAll,
		Pages: c.Trace.Pages, NoHost: hostOff(c),
		Stacks: stackPolicies[c.Trace.Stack]}
	if c.Trace.Link != "auto" {
		o.Mode = probes.Mode(c.Trace.Link)
	}
	return o
}

// hostOff returns the disabled parts of host tracing.
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

// deadband returns the rule by which ticks are idle.
func deadband(c *config.Config) session.Deadband {
	return session.Deadband{Percent: float64(c.Trace.Deadband), Heartbeat: c.Trace.Heartbeat}
}
