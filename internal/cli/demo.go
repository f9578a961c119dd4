package cli

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/sim"
)

// scenario is what a demonstration runs.
type scenario struct {
	name    string
	what    string   // in words
	program []string // of sim, with its arguments
	// recording was made by this command, as root:
	//
	//	bin/ingero demo [incident] --save internal/cli/demo/NAME.ingero
	recording []byte
	length    string        // how long it runs, if nothing is said
	least     time.Duration // how long it must run
	hog       bool          // in its second third another program takes its CPU
	detail    explain.Detail
}

//go:embed demo/train.ingero
var trainRecording []byte

//go:embed demo/incident.ingero
var incidentRecording []byte

// scenarios are what can be demonstrated; the first if nothing is said. A step
// takes 10 ms of GPU.
var scenarios = []scenario{
	{name: "train", what: "a training loop on a simulated GPU", program: []string{"train", "--launches", "20", "--kernel-us", "500"},
		recording: trainRecording, length: "5s", least: time.Second, detail: explain.Tables},
	{name: "incident", what: "a training loop on a simulated GPU, and a hog on its CPU", program: []string{"train", "--launches", "20", "--kernel-us", "500"},
		recording: incidentRecording, length: "12s", least: 3 * time.Second, hog: true, detail: explain.Shares},
}

// demoOptions are the flags of demo.
type demoOptions struct {
	*scenario
	duration time.Duration
	json     bool
	recorded bool   // play the recording even if it could be traced
	save     string // keep what was traced in this file
	debug    bool
}

func demoCommand(e *Env) *cobra.Command {
	c := e.demoOf(&scenarios[0])
	c.Use = "demo"
	c.Short = "Trace a training loop on a simulated GPU; without root, show a recording of that"
	c.Long = `demo runs a training loop on a simulated GPU and traces it with the probes that any
program is traced with. It needs no GPU. Without root it plays a recording that this
command has made, through the same pipeline. Its first line says which of both it is.
Nothing is added to the database.

demo incident shows what ingero is for: some seconds into the run another program, a
hog, takes the CPU on which the loop runs, and the report says who it was and how many
milliseconds it cost.`
	c.Example = "  sudo ingero demo\n  sudo ingero demo incident\n  ingero demo --no-gpu\n  ingero demo incident --json"
	incident := e.demoOf(&scenarios[1])
	incident.Use = "incident"
	incident.Short = "The same with a hog on its CPU: what it cost, and who it was"
	c.AddCommand(incident)
	return c
}

// demoOf makes the command of a scenario.
func (e *Env) demoOf(s *scenario) *cobra.Command {
	o := demoOptions{scenario: s}
	length := s.length
	c := &cobra.Command{Args: noArguments}
	f := c.Flags()
	f.StringVar(&length, "duration", length, "how long the loop runs")
	f.BoolVar(&o.json, "json", false, "print the report as JSON, and no table")
	f.BoolVar(&o.recorded, "recorded", false, "play the recording even where the loop could be traced")
	f.StringVar(&o.save, "save", "", "keep what was traced as a recording in this file")
	f.BoolVar(&o.debug, "debug", false, "say on standard error what is done")
	f.Bool("no-gpu", false, "use no GPU; it never does")
	c.RunE = func(c *cobra.Command, _ []string) error {
		e.debug = o.debug
		var err error
		if o.duration, err = config.ParseDuration(length); err != nil || o.duration < s.least {
			return usage(c.CommandPath()+" --duration "+s.length, "--duration cannot be %q: at least %s is needed", length, leastText(s.least))
		}
		return e.demo(c.Context(), o)
	}
	return c
}

func leastText(d time.Duration) string {
	if d == time.Second {
		return "a second"
	}
	return fmt.Sprintf("%.0f seconds", d.Seconds())
}

func (e *Env) demo(ctx context.Context, o demoOptions) error {
	d := &demo{env: e, demoOptions: o, seen: &collector{gaps: tick.Gaps{}}}
	why := errors.New("--recorded asks for it")
	if !o.recorded {
		if why = d.trace(ctx); why == nil || d.began {
			return errors.Join(why, d.tell())
		}
	}
	if o.save != "" {
		return errors.Join(&problem{What: "there is nothing to save: the loop could not be traced", Do: oneLine(inWords(why).What), Err: why})
	}
	return errors.Join(d.replay(ctx, oneLine(inWords(why).What)), d.tell())
}

// demo is one demonstration.
type demo struct {
	demoOptions
	env    *Env
	seen   *collector
	table  bool   // a table was drawn
	source string // what the report says that it was made from
	began  bool   // the trace has begun: what fails now is an error
	cpu    int    // on which the hog takes turns with the loop
	own    owned  // the processes of the demonstration
}

// trace traces the loop. Until it has begun, an error says why it cannot be.
func (d *demo) trace(ctx context.Context) error {
	e := d.env
	dir, err := os.MkdirTemp("", "ingero-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if d.hog {
		if d.cpu, err = lastCPU(); err != nil {
			return err
		}
	}
	program, err := d.launch(dir)
	if err != nil {
		return err
	}
	defer program.kill()
	d.own.add(program.pid(), uint32(os.Getpid()))
	log := e.logger(d.debug)
	t, err := e.open(ctx, d.save, session.LiveOptions{
		Select: proc.Selector{PIDs: []uint32{program.pid()}}, Gated: program.pid(), Probes: probes.Options{}, Log: log,
	})
	if err != nil {
		return err
	}
	d.began = true
	d.source = "the simulated GPU"
	head := "Live: " + d.what + ",\ntraced by real probes on this machine."
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := d.view(stop, head)
	c := &config.Config{DB: filepath.Join(dir, "demo.db"), Node: "demo", Trace: config.Trace{Record: d.save != ""}}
	rec, err := e.record(c, "demo", "train", v.say)
	if err != nil {
		return errors.Join(err, t.close())
	}
	if rec != nil {
		rec.only = &d.own
	}
	program.run()
	ended := d.disturb(ctx, dir, v)
	err = t.run(ctx, rec, d.sinks(v)...)
	stop()
	err = errors.Join(err, <-ended, v.failed(), rec.end(nil))
	if err != nil || d.save == "" {
		return err
	}
	return d.keep(rec)
}

// launch makes the loop ready to run.
func (d *demo) launch(dir string) (*launched, error) {
	if err := os.Chmod(dir, 0o755); err != nil { // the loop runs as whoever typed sudo
		return nil, err
	}
	stack, err := sim.Extract(dir)
	if err != nil {
		return nil, err
	}
	seconds := strconv.Itoa(int((d.duration + time.Second - 1) / time.Second))
	path := stack.Program(d.program[0])
	args := append(append([]string{path}, d.program[1:]...), "--seconds", seconds)
	if d.hog {
		args = append(args, "--pin", strconv.Itoa(d.cpu))
	}
	l, err := launch(&exec.Cmd{Path: path, Args: args, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}, SysProcAttr: d.env.invoker().attributes()})
	if err != nil {
		return nil, fmt.Errorf("run the training loop: %w", err)
	}
	return l, nil
}

// replay plays the recording.
func (d *demo) replay(ctx context.Context, why string) error {
	log, err := store.OpenLog(bytes.NewReader(d.recording), int64(len(d.recording)))
	if err != nil {
		return fmt.Errorf("read the recording in this program: %w", err)
	}
	made := log.Session()
	live := "sudo ingero demo"
	if d.hog {
		live += " " + d.name
	}
	head := fmt.Sprintf("Recording: %s,\ntraced by this command on %s (Linux %s). Not live, since\n%s.\nLive: %s",
		d.what, made.Started.UTC().Format("2006-01-02"), made.Kernel, why, live)
	d.source = "a recording of the simulated GPU, made by ingero demo"
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := d.view(stop, head)
	o := store.ReplayOptions{}
	if v.pane != nil { // somebody watches
		o.Speed = 1
		ctx, stop = context.WithTimeout(ctx, d.duration)
		defer stop()
	}
	replay := store.NewReplay(log, o)
	err = session.Run(ctx, session.Config{Source: replay, Clock: replay, Sinks: d.sinks(v), Log: d.env.logger(d.debug)})
	return errors.Join(err, v.failed())
}

// view shows the demonstration, and begins with its first lines.
func (d *demo) view(stop context.CancelFunc, head string) *view {
	v := d.env.view(d.json, false, d.env.Stdout, stop)
	v.named = true // it is known what is traced
	if !d.json {
		_, err := io.WriteString(d.env.Stdout, head+"\n\n")
		v.check(err)
	}
	return v
}

// sinks returns what a session of the demonstration goes to. The table is for a
// terminal; elsewhere the report says it all.
func (d *demo) sinks(v *view) []tick.Sink {
	if v.pane == nil {
		return []tick.Sink{d.seen}
	}
	d.table = true
	return []tick.Sink{d.seen, v}
}

// keep copies the recording to where it is wanted.
func (d *demo) keep(rec *recording) error {
	logs, err := filepath.Glob(filepath.Join(store.LogDir(rec.path()), "*"+rec.db.Session().ID+"*"))
	if err != nil || len(logs) != 1 {
		return errors.Join(fmt.Errorf("the recording's files are %q", logs), err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		return err
	}
	return os.WriteFile(d.save, text, 0o644)
}

// tell ends the demonstration with the report.
func (d *demo) tell() error {
	in := d.seen.input("", d.source)
	if d.table {
		if err := d.env.printf("\n"); err != nil {
			return err
		}
	}
	if !d.json {
		return d.env.tell(d.env.Stdout, in, d.detail, d.env.zone(false))
	}
	text, err := explain.ReportJSON(in)
	if err != nil {
		return err
	}
	return d.env.printf("%s\n", text)
}
