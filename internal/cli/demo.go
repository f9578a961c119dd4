package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/gpu"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	*scenario
	duration time.Duration
	json     bool
	recorded bool   // replay the recording even if tracing is possible
	gpu      bool   // use the machine's GPU
	save     string // file for the trace's recording
	debug    bool
}

func demoCommand(e *Env) *cobra.Command {
	var o demoOptions
	var length, noGPU = "", false
	c := &cobra.Command{
		Use:   "demo [SCENARIO]",
		Short: "Demonstrate ingero on a simulated or real GPU or, without root, on recordings",
		Long: `demo causes a problem in a job, traces the job with the same probes as any other program,
and prints the report of ingero explain. The job runs on a simulated GPU or, with --gpu,
on this machine's GPU. Without root, or with --no-gpu, demo replays a recording that this
command made, through the same pipeline. The first line names the source. demo adds
nothing to the database. Without a name, demo shows these scenarios, one after the other:

` + scenarioList(),
		Example: "  sudo ingero demo\n  sudo ingero demo incident\n  ingero demo --no-gpu\n  ingero demo gpu-steal --json",
		Args:    cobra.MaximumNArgs(1),
	}
	f := c.Flags()
	f.StringVar(&length, "duration", "", "duration of the job (default: as long as the scenario requires)")
	f.BoolVar(&o.json, "json", false, "print the report as JSON instead of tables; for all scenarios, a list")
	f.BoolVar(&noGPU, "no-gpu", false, "replay recordings; run and trace nothing")
	f.BoolVar(&o.gpu, "gpu", false, "run the job on this machine's GPU; requires root and python3")
	f.BoolVar(&o.recorded, "recorded", false, "same as --no-gpu")
	f.StringVar(&o.save, "save", "", "save the recording of the trace in this file")
	f.BoolVar(&o.debug, "debug", false, "log debug messages to standard error")
	c.RunE = func(c *cobra.Command, args []string) error {
		o.recorded = o.recorded || noGPU
		e.debug = o.debug
		if o.gpu && o.recorded {
			return usage("ingero demo --gpu, or --no-gpu", "--gpu and --no-gpu cannot be combined")
		}
		list, err := chosen(args)
		if err == nil && o.save != "" && len(list) > 1 {
			err = usage("ingero demo incident --save FILE", "--save requires the name of a scenario")
		}
		for i := range list {
			if err == nil {
				list[i].duration, err = list[i].lasts(length)
			}
		}
		if err != nil {
			return err
		}
		return e.demos(c.Context(), o, list)
	}
	return c
}

// scenarioList renders the list of scenarios: those shown by default, then the others.
func scenarioList() string {
	var b strings.Builder
	for i := range scenarios {
		s := &scenarios[i]
		if i > 0 && s.extra && !scenarios[i-1].extra {
			b.WriteString("\nand, only by name:\n\n")
		}
		name := s.name
		if len(s.aliases) > 0 {
			name += " (also " + strings.Join(s.aliases, ", ") + ")"
		}
		fmt.Fprintf(&b, "  %s\n      %s\n", name, s.shows)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// timedScenario is a scenario and its duration.
type timedScenario struct {
	*scenario
	duration time.Duration
}

// chosen returns the named scenario, or the default scenarios if args is empty.
func chosen(args []string) (list []timedScenario, err error) {
	var names []string
	for i := range scenarios {
		s := &scenarios[i]
		names = append(names, s.name)
		if len(args) == 0 && !s.extra || len(args) > 0 && s.called(args[0]) {
			list = append(list, timedScenario{scenario: s})
		}
	}
	if len(list) == 0 {
		return nil, usage("choose one of "+strings.Join(names, ", "), "no such scenario: %q", args[0])
	}
	return list, nil
}

// lasts returns the duration of the job.
func (a *timedScenario) lasts(length string) (time.Duration, error) {
	if length == "" {
		length = a.length
	}
	d, err := config.ParseDuration(length)
	if err != nil || d < a.least {
		return 0, usage("ingero demo "+a.name+" --duration "+a.length, "--duration cannot be %q: the minimum is %s", length, leastText(a.least))
	}
	return d, nil
}

func leastText(d time.Duration) string {
	if d == time.Second {
		return "a second"
	}
	return fmt.Sprintf("%.0f seconds", d.Seconds())
}

// demos shows scenarios in order. If tracing one fails for a reason that applies to all, the
// rest are replayed from their recordings.
func (e *Env) demos(ctx context.Context, o demoOptions, list []timedScenario) error {
	info, _ := gpu.Machine{}.Read(ctx) // on an error, info has what was found
	e.note("GPU: %s", gpuText(&info))
	if o.gpu && len(info.GPUs) == 0 {
		return &problem{What: "this machine has no usable GPU", Do: "omit --gpu to use a simulated GPU; ingero check lists what it found"}
	}
	var all []wire.Demo
	var why error
	if o.recorded {
		why = errors.New("--no-gpu was given")
	}
	for i, a := range list {
		o.scenario, o.duration = a.scenario, a.duration
		if len(list) > 1 && !o.json {
			if err := e.printf("%s== %d of %d: %s ==\n\n", strings.Repeat("\n", min(i, 1)), i+1, len(list), a.name); err != nil {
				return err
			}
		}
		d := &demo{env: e, demoOptions: o, seen: &collector{gaps: tick.Gaps{}}}
		var err error
		if why, err = d.show(ctx, why); err != nil || ctx.Err() != nil {
			return err
		}
		if !o.json {
			continue
		}
		if len(list) == 1 {
			text, err := explain.ReportJSON(d.input())
			if err != nil {
				return err
			}
			return e.printf("%s\n", text)
		}
		all = append(all, wire.Demo{Report: explain.BuildReport(d.input()), Scenario: a.name})
	}
	if !o.json {
		return nil
	}
	return e.json(all)
}

// show shows one scenario: live if why is nil, else from its recording. It returns the reason
// why the next scenarios cannot be live.
func (d *demo) show(ctx context.Context, why error) (error, error) {
	if why == nil {
		if why = d.trace(ctx); why == nil || d.began || d.gpu {
			return nil, errors.Join(why, d.printReport())
		}
	}
	if d.save != "" {
		return why, &problem{What: "nothing to save: ingero could not trace the job", Do: oneLine(problemOf(why).What), Err: why}
	}
	return why, errors.Join(d.replay(ctx, oneLine(problemOf(why).What)), d.printReport())
}

// demo is one demonstration.
type demo struct {
	demoOptions
	env    *Env
	seen   *collector
	table  bool         // a live table was drawn
	source string       // source that the report names
	began  bool         // the trace has begun; later failures are errors
	cpu    int          // CPU that the hog shares with the job; -1: no hog
	own    ownProcesses // processes of the demonstration
}

// trace traces the job. An error before d.began is set says why the job cannot be traced.
func (d *demo) trace(ctx context.Context) error {
	e := d.env
	dir, err := os.MkdirTemp("", "ingero-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	d.cpu = -1
	if d.hog.threads > 0 {
		if d.cpu, err = lastCPU(); err != nil {
			return err
		}
	}
	jobs, err := d.launch(dir)
	for _, j := range jobs {
		defer j.kill()
		d.own.add(j.pid())
	}
	if err != nil {
		return err
	}
	d.own.add(uint32(os.Getpid()))
	o := session.LiveOptions{Gated: jobs[0].pid(), Log: e.logger(d.debug)}
	for _, j := range jobs {
		o.Select.PIDs = append(o.Select.PIDs, j.pid())
	}
	t, err := e.open(ctx, d.save, o)
	if err != nil {
		return err
	}
	d.began = true
	on := "the simulated GPU"
	if d.gpu {
		on = "the GPU of this machine"
	}
	d.source = on
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := d.view(stop, "Live: "+d.describe()+",\ntraced by real probes on this machine.")
	c := &config.Config{DB: filepath.Join(dir, "demo.db"), Node: "demo", Trace: config.Trace{Record: d.save != ""}}
	rec, err := e.record(t, c, "demo", d.name, v.printLine)
	if err != nil {
		return errors.Join(err, t.close())
	}
	if rec != nil {
		rec.only = &d.own
	}
	jobs[0].run()
	ended := d.disturb(ctx, dir, jobs[1:], v)
	err = t.run(ctx, rec, d.sinks(v)...)
	stop()
	err = errors.Join(err, <-ended, v.failed(), rec.end(nil))
	if err != nil || d.save == "" {
		return err
	}
	return d.keep(rec)
}

// describe returns the description of the scenario.
func (d *demo) describe() string {
	if d.gpu {
		return strings.NewReplacer("a simulated GPU", "a GPU", "its simulated GPU", "its GPU").Replace(d.what)
	}
	return d.what
}

// replay replays the scenario's recording.
func (d *demo) replay(ctx context.Context, why string) error {
	text, err := d.recording()
	if err != nil {
		return err
	}
	log, err := segment.OpenLog(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return fmt.Errorf("read the recording in this program: %w", err)
	}
	made := log.Session()
	head := fmt.Sprintf("Recording: %s,\ntraced by this command on %s (Linux %s). Not live, because\n%s.\nLive: sudo ingero demo %s",
		d.what, made.Started.UTC().Format("2006-01-02"), made.Kernel, why, d.name)
	d.source = "a recording of the simulated GPU, made by ingero demo"
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	v := d.view(stop, head)
	o := segment.ReplayOptions{}
	if v.pane != nil { // a terminal: replay at recorded speed
		o.Speed = 1
		ctx, stop = context.WithTimeout(ctx, d.duration)
		defer stop()
	}
	replay := segment.NewReplay(log, o)
	err = session.Run(ctx, session.Config{Source: session.FromRecording(replay), Clock: replay, Sinks: d.sinks(v), Log: d.env.logger(d.debug)})
	return errors.Join(err, v.failed())
}

// view prints head and returns the view of the demonstration.
func (d *demo) view(stop context.CancelFunc, head string) *view {
	v := d.env.view(d.json, false, d.env.Stdout, stop)
	v.named = true // the head says what is traced
	v.take = nil   // text above the table stays visible
	if !d.json {
		_, err := io.WriteString(d.env.Stdout, head+"\n\n")
		v.check(err)
	}
	return v
}

// sinks returns the sinks of the demonstration's session. Only a terminal has a table;
// elsewhere the report has everything.
func (d *demo) sinks(v *view) []tick.Sink {
	if v.pane == nil {
		return []tick.Sink{d.seen}
	}
	d.table = true
	return []tick.Sink{d.seen, v}
}

// keep copies the recording to the file of --save.
func (d *demo) keep(rec *recording) error {
	logs, err := filepath.Glob(filepath.Join(store.LogDir(rec.path()), "*"+rec.db.Session().ID+"*"))
	if err != nil || len(logs) != 1 {
		return errors.Join(fmt.Errorf("the recording's files are %q", logs), err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		return err
	}
	_, err = d.env.written(d.save, true, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
	return err
}

// input returns the input of the report.
func (d *demo) input() *explain.Input { return d.seen.input("", d.source) }

// printReport prints the report, unless the output is JSON.
func (d *demo) printReport() error {
	if d.json {
		return nil
	}
	if d.table {
		if err := d.env.printf("\n"); err != nil {
			return err
		}
	}
	return d.env.printReport(d.env.Stdout, d.input(), d.detail, d.env.zone(false))
}
