package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"ingero/internal/causal"
	"ingero/internal/episode"
	"ingero/internal/govern"
	"ingero/internal/ledger"
	"ingero/internal/loop"
	"ingero/internal/proc"
	"ingero/internal/rollcall"
	"ingero/internal/serve"
	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/internal/track"
)

// Config configures a session. Source is required; the zero value of the other fields is useful.
type Config struct {
	Source   Source
	Sinks    []tick.Sink
	Interval time.Duration // between ticks; 0: 1 s
	Quiet    Deadband      // defines which ticks are idle
	Poll     time.Duration // between polls under load; 0: 8 ms. Longer when idle
	Log      *slog.Logger  // nil: no logging
	Clock    Clock         // nil: the source's; if it has none, the machine's
	// Hide splits the chains of a tick into shown and hidden ones, by the wall clock; nil: all are shown.
	Hide func(now time.Time, final bool, chains []tick.Chain) (shown []tick.Chain, hidden []tick.Hidden)
	// Alive is called about once a second while a sink blocks the session, for at most ten minutes at a
	// time; nil: it is not called.
	Alive func()
	// Forced lists steps of govern.Steps to take from the first tick on, at any cost of tracing, if
	// the source has a bound on it. For measurements.
	Forced []int
}

// Clock is the clock of a session. Its times must be comparable with those of the source.
type Clock interface {
	Now() time.Time
	// After delivers once, after d.
	After(d time.Duration) <-chan time.Time
}

// realClock is the clock of a session whose source has none: the wall clock at the start of the session
// plus the monotonic time since, so wall-clock steps do not affect it. Its times have no monotonic
// reading, so they equal their recorded values.
type realClock struct{ began time.Time }

func (c realClock) Now() time.Time                       { return c.began.Add(time.Since(c.began)).Round(0) }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// busyBatch is the least number of calls in a batch that keeps polls frequent.
const busyBatch = 64

// Run polls and ticks until ctx or the source ends. Then it stops the source, reads the rest, makes
// the final tick and closes sinks and source. An error of a sink stops that sink only; Run returns
// it at the end, joined with all others. The end of ctx is no error.
func Run(ctx context.Context, c Config) error {
	r, err := begin(c)
	if err != nil {
		return errors.Join(err, c.Source.Close())
	}
	return r.run(ctx)
}

// begin prepares a session. Its goroutines end with run.
func begin(c Config) (*runner, error) {
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.Poll == 0 {
		c.Poll = 8 * time.Millisecond
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	can := c.Source.Capabilities()
	if c.Clock == nil {
		c.Clock = can.Clock
	}
	if c.Clock == nil {
		c.Clock = realClock{time.Now()}
	}
	if can.deck != nil {
		c.Clock = can.deck.clock(c.Clock)
	}
	return newRunner(c, can)
}

func (r *runner) run(ctx context.Context) error {
	loop := r.loop
	if r.can.Due != nil {
		loop = r.play
	}
	err := errors.Join(loop(ctx), r.finish())
	r.names.Close()
	r.stacks.close()
	return errors.Join(err, r.fan.close(), r.Source.Close())
}

// runner makes a session's batches and ticks, passes them through the stages, then to the sinks.
type runner struct {
	Config
	can    Capabilities // of the source
	stages []stage
	states
	batch pollResult // the current batch
	fan   *fanOut

	started, ticked time.Time // start of the session; last tick
	seq, records    uint64    // ticks; calls with a record
	over            bool      // the last tick was the final one
}

// states has what each stage keeps between batches and ticks.
type states struct {
	table    *table
	meter    *proc.Meter
	budget   budget
	quiet    idleFilter
	ledger   *ledger.Ledger
	loops    *loop.Finder
	track    *track.Tracker
	ranks    *rollcall.Roll
	faults   *faultJoiner
	causes   *causal.Engine
	serve    serve.Splitter
	names    *symbols.Names
	stacks   *stacks
	sites    *sites
	episodes episode.Tracker
}

func newRunner(c Config, can Capabilities) (*runner, error) {
	stages, err := pipeline(can.Due != nil)
	if err != nil {
		return nil, err
	}
	now := c.Clock.Now()
	meter, err := proc.NewMeter(proc.FS{})
	if err != nil {
		c.Log.Debug("host state unavailable", "error", err)
		meter = &proc.Meter{}
	}
	return &runner{Config: c, can: can, stages: stages, fan: newFan(&c), started: now, ticked: now, states: states{
		table: newTable(), meter: meter, budget: budget{Budget: govern.Budget{Forced: c.Forced}}, quiet: idleFilter{Deadband: c.Quiet},
		ledger: ledger.New(can.AgentPID), loops: loop.New(), track: track.New(), ranks: rollcall.New(), faults: newJoiner(can.Proc), causes: causal.New(can.AgentPID),
		names: symbols.New(can.Memory), stacks: newStacks(&can), sites: newSites()}}, nil
}

// loop returns nil when ctx or the input ends.
func (r *runner) loop(ctx context.Context) error {
	patience := func() time.Duration { return 4 * r.Poll }
	if r.can.Patience != nil {
		patience = r.can.Patience
	}
	pause := r.Poll
	wait := pause
	for {
		poll := r.Clock.After(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-r.can.Wake:
		case <-poll:
		}
		until := r.ticked.Add(r.Interval)
		if half := r.Clock.Now().Add(r.Interval / 2); half.After(until) {
			until = half // even if ticks are slow, leave time to read
		}
		n, more, err := r.poll(until)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if pause = min(2*pause, patience()); n >= busyBatch {
			pause = r.Poll
		}
		if wait = pause; more {
			wait = 0
		}
		if now := r.Clock.Now(); now.Sub(r.ticked) >= r.Interval {
			if err := r.tick(now, false); err != nil {
				return err
			}
		} else if left := r.Interval - now.Sub(r.ticked); left < wait {
			wait = left
		}
	}
}

// play is loop for the ticks of a recording.
func (r *runner) play(ctx context.Context) error {
	for ctx.Err() == nil && !r.over {
		if _, _, err := r.poll(time.Time{}); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var t tick.Tick
		if r.can.Due(&t) {
			r.started, r.seq = t.Started, t.Seq
			if err := r.complete(&t); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.Clock.After(r.Poll):
		}
	}
	return nil
}

// poll reads what has arrived and passes it on in batches of bounded size: everything, or until a
// nonzero until. A tick must not wait for records that arrive faster than they are read, since it
// is the tick that reduces their rate.
func (r *runner) poll(until time.Time) (calls int, more bool, err error) {
	for first := true; first || more && err == nil && (until.IsZero() || r.Clock.Now().Before(until)); first = false {
		b := r.fan.batch()
		more, err = r.Source.Poll(&b.Batch)
		if r.batch.Batch = &b.Batch; r.can.Faults != nil {
			r.batch.Faults = r.can.Faults(r.batch.Faults[:0])
		}
		for i := range r.stages {
			if do := r.stages[i].batch; do != nil {
				do(r, &r.batch)
			}
		}
		r.records += uint64(len(b.Calls))
		calls += len(b.Calls)
		r.fan.send(b)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read the source: %w", err)
	}
	return calls, more, err
}

// finish stops the source, reads what has arrived and makes the last tick.
func (r *runner) finish() error {
	err := r.Source.Stop()
	if _, _, perr := r.poll(time.Time{}); !errors.Is(perr, io.EOF) {
		err = errors.Join(err, perr)
	}
	r.settle()
	if r.over {
		return err
	}
	return errors.Join(err, r.tick(r.Clock.Now(), true))
}

func (r *runner) tick(now time.Time, final bool) error {
	r.seq++
	return r.complete(&tick.Tick{Time: now, Started: r.started, Seq: r.seq, Window: now.Sub(r.ticked), Records: r.records, Final: final})
}

// complete fills a tick, stage by stage, and passes it on. A tick has all inputs of the causes
// before they are computed, live and in a replay alike.
func (r *runner) complete(t *tick.Tick) error {
	if err := r.Source.Totals(t); err != nil {
		return fmt.Errorf("read totals: %w", err)
	}
	inOrder(t)
	for i := range r.stages {
		if do := r.stages[i].tick; do != nil {
			if err := do(r, t); err != nil {
				return err
			}
		}
	}
	r.ticked, r.over = t.Time, t.Final
	r.fan.tick(t)
	return nil
}

// inOrder sorts the lists that a source adds to a tick.
func inOrder(t *tick.Tick) {
	byPID := func(a, b tick.Process) int { return cmp.Compare(a.PID, b.PID) }
	slices.SortFunc(t.Processes, byPID)
	slices.SortFunc(t.Others, byPID)
	slices.SortFunc(t.Ops, func(a, b tick.Op) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.PID, b.PID))
	})
}
