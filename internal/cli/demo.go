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

// demoRecording was made by this command:
//
//	sudo unshare --cgroup bin/ingero demo --save internal/cli/demo/train.ingero
//
//go:embed demo/train.ingero
var demoRecording []byte

// demoProgram is what demo runs: a training loop whose steps take 10 ms of GPU.
var demoProgram = []string{"train", "--launches", "20", "--kernel-us", "500"}

// demoOptions are the flags of demo.
type demoOptions struct {
	duration time.Duration
	json     bool
	recorded bool   // play the recording even if it could be traced
	save     string // keep what was traced in this file
	debug    bool
}

func demoCommand(e *Env) *cobra.Command {
	var o demoOptions
	length := "5s"
	c := &cobra.Command{
		Use:   "demo",
		Short: "Trace a training loop on a simulated GPU; without root, show a recording of that",
		Long: `demo runs a training loop on a simulated GPU and traces it with the probes that any
program is traced with. It needs no GPU. Without root it plays a recording that this
command has made, through the same pipeline. Its first line says which of both it is.
Nothing is added to the database.`,
		Example: "  sudo ingero demo\n  ingero demo --no-gpu\n  ingero demo --json",
		Args:    noArguments,
	}
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
		if o.duration, err = config.ParseDuration(length); err != nil || o.duration < time.Second {
			return usage("ingero demo --duration 5s", "--duration cannot be %q: at least a second is needed", length)
		}
		return e.demo(c.Context(), o)
	}
	return c
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
}

// trace traces the loop. Until it has begun, an error says why it cannot be.
func (d *demo) trace(ctx context.Context) error {
	e := d.env
	dir, err := os.MkdirTemp("", "ingero-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program, err := d.launch(dir)
	if err != nil {
		return err
	}
	defer program.kill()
	log := e.logger(d.debug)
	t, err := e.open(ctx, d.save, session.LiveOptions{
		Select: proc.Selector{PIDs: []uint32{program.pid()}}, Gated: program.pid(), Probes: probes.Options{}, Log: log,
	})
	if err != nil {
		return err
	}
	d.began = true
	d.source = "the simulated GPU"
	head := "Live: a training loop on a simulated GPU, traced by real probes on this machine."
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := d.view(stop, head)
	c := &config.Config{DB: filepath.Join(dir, "demo.db"), Node: "demo", Trace: config.Trace{Record: d.save != ""}}
	rec, err := e.record(c, "demo", "train", v.say)
	if err != nil {
		return errors.Join(err, t.close())
	}
	program.run()
	err = errors.Join(t.run(ctx, rec, d.sinks(v)...), v.failed(), rec.end(nil))
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
	path := stack.Program(demoProgram[0])
	args := append(append([]string{path}, demoProgram[1:]...), "--seconds", seconds)
	l, err := launch(&exec.Cmd{Path: path, Args: args, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}, SysProcAttr: d.env.invoker().attributes()})
	if err != nil {
		return nil, fmt.Errorf("run the training loop: %w", err)
	}
	return l, nil
}

// replay plays the recording.
func (d *demo) replay(ctx context.Context, why string) error {
	log, err := store.OpenLog(bytes.NewReader(demoRecording), int64(len(demoRecording)))
	if err != nil {
		return fmt.Errorf("read the recording in this program: %w", err)
	}
	made := log.Session()
	head := fmt.Sprintf("Recording: a training loop on a simulated GPU, traced by this command on\n"+
		"%s (Linux %s). Not live, since %s.\nLive: sudo ingero demo", made.Started.UTC().Format("2006-01-02"), made.Kernel, why)
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
		return d.env.tell(d.env.Stdout, in, explain.Tables)
	}
	text, err := explain.ReportJSON(in)
	if err != nil {
		return err
	}
	return d.env.printf("%s\n", text)
}
