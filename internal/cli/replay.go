package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// replayOptions are the flags of replay.
type replayOptions struct {
	json, chains, check, utc bool
	speed, session           string
}

func replayCommand(e *Env) *cobra.Command {
	var o replayOptions
	c := &cobra.Command{
		Use:   "replay [FILE]",
		Short: "Replay a recording as if it happened now",
		Long: `replay analyzes the latest recording of a database as the live trace did: with the same
calls and waits in the same batches, and the same ticks at the same times. So replay finds
exactly what the trace found. --check compares the replay with the trace, tick by tick, and
exits with code 3 if they differ. Use it to test a newer ingero on an older recording.

replay reports when each cause begins, grows and ends, in the time of the recording. At the
end it prints the report on all lost time. --json prints the lines that ingero trace --json
printed; --chains prints only causes.`,
		Example: `  ingero replay
  ingero replay gpu-7.ingero --check
  ingero replay --speed 10
  ingero replay --json --chains | jq .chain.root_cause`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(c.CommandPath()+" --help shows the usage", "%s plays one file, but got %d", c.CommandPath(), len(args))
			}
			return nil
		},
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "print JSON lines, like trace; with --check, the result")
	f.BoolVar(&o.chains, "chains", false, "print only causes")
	f.BoolVar(&o.check, "check", false, "compare the causes with those that the trace found")
	f.BoolVar(&o.utc, "utc", false, "show times in UTC")
	f.StringVar(&o.speed, "speed", "max", "replay speed as a multiple of real time, or max")
	f.StringVar(&o.session, "session", "", "ID of the recording, as ingero db info --json lists it (default: the latest)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			if f.Changed("db") {
				return usage("name the database once", "the database is given both as %q and with --db", args[0])
			}
			if err := f.Set("db", args[0]); err != nil {
				return err
			}
		}
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.replay(c.Context(), s, o)
	}
	return c
}

// rate returns the replay speed as a multiple of real time; 0: unlimited.
func (o *replayOptions) rate() (float64, error) {
	if o.speed == "max" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(o.speed, 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, usage("for example --speed 1, --speed 10 or --speed max", "--speed cannot be %q", o.speed)
	}
	return n, nil
}

func (e *Env) replay(ctx context.Context, c *config.Config, o replayOptions) (err error) {
	speed, err := o.rate()
	if err != nil {
		return err
	}
	if o.check && o.chains {
		return usage("use one of them", "--check and --chains cannot be combined")
	}
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s, err := r.Session(ctx, o.session)
	if err != nil {
		return recordingProblem(r.Path(), o.session, err)
	}
	log, err := r.OpenLog(&s)
	if errors.Is(err, query.ErrNoCalls) {
		return &problem{What: "the calls of this recording have been removed, so replay cannot play it", Do: "to see the causes found during recording: ingero explain --chains", Err: err}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	play := player{e: e, log: log, speed: speed, zone: e.zone(o.utc)}
	if o.check {
		return e.replayCheck(ctx, &play, r, &s, o.json)
	}
	return play.show(ctx, r.Path(), &s, &o)
}

// recordingProblem adds a remedy to the error that a recording does not exist.
func recordingProblem(path, id string, err error) error {
	if id != "" && errors.Is(err, query.ErrNoSession) && !errors.Is(err, query.ErrLost) {
		return &problem{What: fmt.Sprintf("no recording %q in %s", id, path), Do: "ingero db info --json lists the recordings", Err: err}
	}
	return databaseProblem(path, err)
}

// player replays a recording.
type player struct {
	e     *Env
	log   *segment.Log
	speed float64
	zone  *time.Location
}

// run replays the recording to the sinks. It replays a damaged recording up to the damage, and
// returns an error with the position.
func (p *player) run(ctx context.Context, sum func(*tick.Tick, uint64, bool), sinks ...tick.Sink) error {
	source := segment.NewReplay(p.log, segment.ReplayOptions{Speed: p.speed, Sum: sum})
	err := session.Run(ctx, session.Config{Source: session.FromRecording(source), Clock: source, Sinks: sinks, Log: p.e.logger(p.e.debug)})
	if segment.Unreadable(err) {
		return &problem{What: "cannot read the recording to its end: " + err.Error(), Do: "ingero db verify shows the damage", Err: err}
	}
	return errors.Join(err, ctx.Err())
}

// show replays the recording and prints the results.
func (p *player) show(ctx context.Context, path string, s *query.Session, o *replayOptions) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	switch {
	case o.json && !o.chains:
		v := p.e.view(true, false, p.e.Stdout, stop)
		return playEnd(p.run(ctx, nil, v), v.failed())
	case o.json:
		l := &episodeLines{json: true, out: p.e.printf, stop: stop}
		return playEnd(p.run(ctx, nil, l), l.failed())
	}
	if err := p.e.printf("%s\n", p.head(s)); err != nil {
		return err
	}
	l, seen := &episodeLines{out: p.e.printf, zone: p.zone, stop: stop}, &collector{}
	if err := playEnd(p.run(ctx, nil, l, seen), l.failed()); err != nil || o.chains {
		return err
	}
	in := seen.input(s.Node, path)
	in.Remarks = remarks([]*query.Summary{{Session: *s}}, p.zone)
	if err := p.e.printf("\n"); err != nil {
		return err
	}
	return p.e.printReport(p.e.Stdout, in, explain.Brief, p.zone)
}

// head describes the recording in one line.
func (p *player) head(s *query.Session) string {
	what := s.Mode
	if s.Target != "" {
		what += " of " + s.Target
	}
	by := ""
	if s.Version != "" {
		by = " by ingero " + s.Version
	}
	return oneLine(fmt.Sprintf("Recording of %s: %s, %s%s", s.Started.In(p.zone).Format("2006-01-02 15:04:05 MST"), what, s.Node, by))
}

// playEnd returns the error of the replay or of its output. If the output's reader is gone, the
// replay was canceled, which is no error.
func playEnd(played, output error) error {
	if output != nil {
		return output
	}
	if errors.Is(played, context.Canceled) {
		return nil
	}
	return played
}

// episodeLines is a sink that prints only the episodes of chains.
type episodeLines struct {
	tick.TicksOnly
	json bool
	out  func(format string, args ...any) error
	zone *time.Location
	stop context.CancelFunc
	err  error
}

// Tick implements [tick.Sink].
func (l *episodeLines) Tick(t *tick.Tick) error {
	for i := range t.Episodes {
		e := &t.Episodes[i]
		if e.Hidden || l.err != nil {
			continue
		}
		line, err := l.line(e, t)
		if err != nil {
			return err
		}
		if l.err = l.out("%s\n", line); l.err != nil {
			l.stop()
		}
	}
	return nil
}

func (l *episodeLines) line(e *tick.Episode, t *tick.Tick) (string, error) {
	if !l.json {
		return oneLine(explain.EpisodeLine(e, t, l.zone)), nil
	}
	b, err := explain.EpisodeJSON(e, t)
	return string(b), err
}

// Close implements [tick.Sink].
func (l *episodeLines) Close() error { return nil }

// failed returns the error of the output, nil if its reader is gone.
func (l *episodeLines) failed() error {
	if l.err == nil || gone(l.err) {
		return nil
	}
	return l.err
}
