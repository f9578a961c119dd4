package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/mute"
	"ingero/internal/proc"
	"ingero/internal/query"
	"ingero/internal/screen"
	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// topOptions are the flags of top.
type topOptions struct {
	pids   []uint
	labels []string
	once   bool
	utc    bool
}

// top redraws once a second, or less often if that would take more than a tenth of a CPU. It
// analyzes the last seconds of the recording.
const (
	topEvery = time.Second
	topShare = 10
	topTail  = 10 * time.Second
)

func topCommand(e *Env) *cobra.Command {
	var o topOptions
	c := &cobra.Command{
		Use:   "top",
		Short: "Show the table of a running trace, from its recording",
		Long: `top shows the same table as trace, but from the recording: it does not need root and does
not disturb the trace. Counts and quantiles cover the whole recording; where the time went,
the call rate and the requests to servers cover its last 10 seconds.

For each server with requests, a line has the requests a second, the time to the first byte
(ttft), the time between two events (tpot), and the two largest parts of the time to the
first byte (docs/guides/inference.md).

top redraws the table every second until Ctrl-C. With --once, or without a terminal, it
prints the table once and exits. If no trace records, top shows the last recording and the
time when it ended.

With --label, counts, quantiles and the call rate cover the calls with that label, and the
table has only processes with such calls. Requests count if they arrived while the server
had the label.

Keys on a terminal:

` + keysHelp(),
		Example: "  ingero top\n  ingero top --once\n  ingero top --db /var/lib/ingero/ingero.db",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.UintSliceVarP(&o.pids, "pid", "p", nil, "only these processes: 4821 or 4821,5032")
	f.BoolVar(&o.once, "once", false, "print the table once")
	f.StringArrayVar(&o.labels, "label", nil, "only calls with this label: tenant=a (repeatable)")
	bindUTC(f, &o.utc)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.top(c.Context(), s, o)
	}
	return c
}

func (e *Env) top(ctx context.Context, c *config.Config, o topOptions) error {
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	path := r.Path()
	s, err := r.Session(ctx, "")
	if err == nil && s.State != "running" { // else the process may still be traced
		err = r.CheckRecorded(ctx, []query.Session{s}, numbers(o.pids))
	}
	if err := errors.Join(err, r.Close()); err != nil {
		return databaseProblem(path, err)
	}
	with, err := query.ParseLabels(o.labels)
	if err != nil {
		return usage("--label tenant=a", "--label: %v", err)
	}
	v := &topView{path: path, pids: numbers(o.pids), labels: with, filter: filter(c), log: e.logger(e.debug), now: func() time.Time { return e.now(o.utc) },
		show: explain.Options{Location: e.zone(o.utc), Color: e.Getenv("NO_COLOR") == "" && isTerminal(e.Stdout, e.Getenv)}}
	if o.once || !isTerminal(e.Stdout, e.Getenv) {
		text, err := v.text(ctx)
		if err != nil {
			return databaseProblem(path, err)
		}
		return e.printf("%s", text)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err = v.watch(ctx, e, stop); errors.Is(err, screen.ErrNoTerminal) {
		err = v.follow(ctx, newPane(e.Stdout))
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) { // Ctrl-C is the normal end
		return nil
	}
	return databaseProblem(path, err)
}

// topView shows the latest recording of a database.
type topView struct {
	path   string
	pids   []uint32 // nil: all
	labels []query.Label
	filter mute.Filter
	show   explain.Options
	now    func() time.Time
	log    *slog.Logger
	meter  *proc.Meter // nil: not yet needed
}

// watch shows the table on the alternate screen until ctx ends.
func (v *topView) watch(ctx context.Context, e *Env, stop func()) error {
	var broken error
	b, err := openBoard(e.Stdin, e.Stdout, v.show, &sync.Mutex{}, stop, func(err error) { broken = err; stop() })
	if err != nil {
		return err
	}
	e.logOutput.to(b)
	err = v.each(ctx, func() error {
		if b.paused() {
			return nil
		}
		s, err := v.readState(ctx)
		if err == nil {
			b.show(s)
		}
		return err
	})
	e.logOutput.to(nil)
	if e := b.end(e.Stdout); broken == nil { // broken is no longer written concurrently
		broken = e
	}
	return errors.Join(broken, err)
}

// follow draws the table at the cursor until ctx ends.
func (v *topView) follow(ctx context.Context, p *pane) (err error) {
	defer func() { err = errors.Join(err, p.close()) }()
	return v.each(ctx, func() error {
		width, height := p.size()
		v.show.Width, v.show.Height = width-1, height-2 // one line is for the state
		text, err := v.text(ctx)
		if err == nil {
			err = p.draw(text)
		}
		return err
	})
}

// each calls show repeatedly until ctx ends or show fails, and returns the error.
func (v *topView) each(ctx context.Context, show func() error) error {
	for {
		began := time.Now()
		if err := show(); err != nil {
			return err
		}
		next := time.NewTimer(max(topEvery-time.Since(began), (topShare-1)*time.Since(began)))
		select {
		case <-ctx.Done():
			next.Stop()
			return ctx.Err()
		case <-next.C:
		}
	}
}

// text renders the table of the current state of the recording.
func (v *topView) text(ctx context.Context) (string, error) {
	s, err := v.readState(ctx)
	if err != nil {
		return "", err
	}
	return s.head + explain.Live(&s.tick, s.seen, v.show), nil
}

// readState reads the input of the table. It reopens the database: a reader without write access
// next to the database has a copy.
func (v *topView) readState(ctx context.Context) (x *viewState, err error) {
	r, err := query.Open(ctx, v.path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s, err := r.Session(ctx, "")
	if err != nil {
		return nil, err
	}
	t, seen, err := v.tick(ctx, r, &s)
	if err != nil {
		return nil, err
	}
	return &viewState{tick: *t, seen: seen, head: v.state(&s)}, nil
}

// state returns a line about the recording, "" if its trace is still running.
func (v *topView) state(s *query.Session) string {
	how := ""
	switch s.State {
	case "running":
		return ""
	case "interrupted":
		how = ", when it was killed"
	case "full", "failed":
		how = ": " + s.Problem
	}
	at := end(s).In(v.show.Location)
	clock := "15:04:05 MST"
	if now := v.now(); now.YearDay() != at.YearDay() || now.Year() != at.Year() {
		clock = "2006-01-02 15:04:05 MST"
	}
	return oneLine(fmt.Sprintf("No trace is recording; the last recording ended at %s, %s ago%s",
		at.Format(clock), explain.Duration(int64(max(v.now().Sub(at), 0))), how)) + "\n"
}

// tick builds a tick from the recording's counts and an analysis of its last seconds.
func (v *topView) tick(ctx context.Context, r *query.Reader, s *query.Session) (*tick.Tick, *explain.Seen, error) {
	f := query.Filter{Session: s.ID, PIDs: v.pids, Labels: v.labels}
	sum, err := r.Summary(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	if len(f.Labels) > 0 { // only processes with such calls
		f.PIDs = []uint32{noPID}
		for i := range sum.Ops {
			f.PIDs = append(f.PIDs, sum.Ops[i].PID)
		}
		sum.Processes = slices.DeleteFunc(sum.Processes, func(p tick.Process) bool { return !slices.Contains(f.PIDs, p.PID) })
	}
	with, err := r.Labelled(ctx, s, f)
	if err != nil {
		return nil, nil, err
	}
	t := &tick.Tick{Time: end(s), Started: s.Started, Ops: sum.Ops, Processes: sum.Processes, Libraries: sum.Libraries,
		Reports: sum.Reports, Drops: sum.Drops, Records: s.Records, Self: tick.Self{CPU: s.CPU}}
	f.From = t.Time.Add(-tick.ChainStays)
	if t.Chains, err = r.Chains(ctx, f); err != nil {
		return nil, nil, err
	}
	if t.Chains, t.Hidden, err = splitChains(ctx, v.filter, r, v.now(), t.Chains); err != nil {
		return nil, nil, err
	}
	if s.State == "running" {
		v.host(&t.Host)
	}
	from := t.Time.Add(-topTail)
	if from.Before(s.Started) {
		from = s.Started
	}
	last := &tail{pids: f.PIDs, servers: v.pids, with: with, ops: map[opOfPID]*tick.Op{}}
	if last.within, err = r.Ranges(ctx, s, query.Filter{Labels: v.labels, From: from}); err != nil {
		return nil, nil, err
	}
	c, err := analyse(ctx, r, s, from, time.Time{}, v.log, last)
	if err != nil || c == nil { // its calls have been deleted
		return t, nil, err
	}
	in := &explain.Input{}
	c.ledger(in, f.PIDs)
	t.Breakdowns, t.Threads, t.Others, t.GPUs = in.Breakdowns, in.Threads, c.last.Others, c.last.GPUs
	if t.Window = t.Time.Sub(from); t.Window > 0 {
		last.fill(t.Ops)
	}
	reads, err := r.Inference(ctx, query.Filter{Session: s.ID, PIDs: v.pids, From: t.Time.Add(-explain.OldestRead)})
	if err != nil {
		return nil, nil, err
	}
	last.seen.Tick(&tick.Tick{Inference: reads})
	return t, &last.seen, nil
}

// host reads the state of this machine, on which the trace runs.
func (v *topView) host(h *tick.Host) {
	var err error
	if v.meter == nil {
		if v.meter, err = proc.NewMeter(proc.FS{}); err != nil {
			v.meter = nil
			return
		}
	}
	var self tick.Self // top's own usage, not shown
	if err := v.meter.Read(h, &self); err != nil {
		v.log.Debug("the machine's state", "error", err)
	}
}

// opOfPID is an operation of a process.
type opOfPID struct {
	pid uint32
	op  events.Op
}

// tail is a sink that counts the calls it receives.
type tail struct {
	pids    []uint32 // nil: all
	servers []uint32 // whose requests count; nil: all
	with    query.Labelled
	within  query.Ranges // of the labels
	seen    explain.Seen
	ops     map[opOfPID]*tick.Op
}

// Batch implements [tick.Sink].
func (l *tail) Batch(b *tick.Batch) error {
	wanted := func(pid uint32) bool { return len(l.pids) == 0 || slices.Contains(l.pids, pid) }
	l.seen.Add(&tick.Batch{
		Procs: slices.DeleteFunc(slices.Clone(b.Procs), func(p tick.ProcEvent) bool { return !wanted(p.PID) }),
		Waits: slices.DeleteFunc(slices.Clone(b.Waits), func(w events.Wait) bool { return !wanted(w.PID) }),
	})
	for i := range b.Calls {
		c := &b.Calls[i]
		if !l.with.Has(c) {
			continue
		}
		k := opOfPID{c.PID, c.Op}
		o := l.ops[k]
		if o == nil {
			o = &tick.Op{DurLast: &stats.Sketch{}}
			l.ops[k] = o
		}
		o.Last.Calls += uint64(c.Weight)
		if c.Flags&events.CallUnmeasured == 0 {
			o.DurLast.Add(c.Duration, c.Weight)
		}
	}
	return nil
}

// fill sets the operations' calls and durations of the last seconds.
func (l *tail) fill(ops []tick.Op) {
	for i := range ops {
		if o := l.ops[opOfPID{ops[i].PID, ops[i].Op}]; o != nil {
			ops[i].Last, ops[i].DurLast = o.Last, o.DurLast
		}
	}
}

// Tick implements [tick.Sink]. The reads of inference servers come from the table, which has older
// ones too.
func (l *tail) Tick(t *tick.Tick) error {
	own := *t
	own.Inference, own.Requests = nil, requestsTo(t.Requests, l.servers, l.within)
	l.seen.Tick(&own)
	return nil
}

// Close implements [tick.Sink].
func (l *tail) Close() error { return nil }
