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
	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/internal/track"
	"ingero/pkg/events"
)

// Source is where a session's input comes from. One goroutine calls it.
type Source interface {
	// Poll appends what has arrived since the last call and does not wait for
	// more. more says that it stopped for want of room, not of input. At the end
	// of all input it returns [io.EOF], possibly with a last batch.
	Poll(b *tick.Batch) (more bool, err error)
	// Totals fills Ops (Sum and Hist), Processes, Libraries, Reports and Drops as
	// of now, and Host and Self if it is a [Recording]. What it fills is
	// the tick's from then on.
	Totals(t *tick.Tick) error
	// Stop ends the input; what had arrived until then can still be polled. It
	// is idempotent.
	Stop() error
	Close() error
}

// Waker is a source that can ask to be polled before its time.
type Waker interface {
	// Wake delivers a value when a poll is urgent.
	Wake() <-chan struct{}
	// Patience is how long the next poll may wait for while hardly any calls come. It is
	// asked for often.
	Patience() time.Duration
}

// Thinner is a source that can leave out records under pressure, and wants to
// know which calls are slow: those it leaves out last.
type Thinner interface {
	SetSlow(op events.Op, d time.Duration) error
}

// Agent is a source that knows which process the agent is, or was: its threads
// are told apart from others that take a CPU.
type Agent interface {
	AgentPID() uint32
}

// Recording is a source that plays what was: its Host and Self are all there are, and
// its ticks are when they were.
type Recording interface {
	// Due tells whether a tick is due, once Poll has delivered all that came before it,
	// and fills in which one that is: all but what Totals fills.
	Due(t *tick.Tick) bool
}

// Config is a session to run. Source is required; the zero value of the rest is
// useful.
type Config struct {
	Source   Source
	Sinks    []tick.Sink
	Interval time.Duration // between ticks; 0: 1 s
	Quiet    Deadband      // which ticks are idle
	Poll     time.Duration // between polls under load; 0: 8 ms. More when idle
	Log      *slog.Logger  // nil: none
	Clock    Clock         // nil: the machine's
	// Hide moves the chains of a tick that are not to be shown to Hidden; nil: none.
	Hide func(*tick.Tick)
	// Forced are steps of govern.Steps that are taken from the first tick on, whatever tracing
	// costs, where the source has a bound on that. For measurements.
	Forced []int
}

// Clock is the time that a session runs by.
type Clock interface {
	Now() time.Time
	// After delivers once, when d has passed.
	After(d time.Duration) <-chan time.Time
}

// realClock is the machine's as it was when the session began, and what has passed
// since: so nobody sets it. Its times are all there is of them: what is recorded of one
// is the same.
type realClock struct{ began time.Time }

func (c realClock) Now() time.Time                       { return c.began.Add(time.Since(c.began)).Round(0) }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// busyBatch is the number of calls in a batch from which polls stay frequent.
const busyBatch = 64

// Run polls and ticks until ctx ends or the source does, then stops the source,
// reads what is left, makes the final tick and closes sinks and source. The
// error of a sink ends that sink only; Run returns it, with all others, at the
// end. A session that ends because ctx did is no error.
func Run(ctx context.Context, c Config) error {
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.Poll == 0 {
		c.Poll = 8 * time.Millisecond
	}
	if c.Clock == nil {
		c.Clock = realClock{time.Now()}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	raw := deckOf(c.Source)
	if raw != nil {
		c.Clock = raw.clock(c.Clock)
	}
	r := newRunner(c)
	r.raw = raw
	loop := r.loop
	if rec, ok := c.Source.(Recording); ok {
		loop = func(ctx context.Context) error { return r.play(ctx, rec) }
	}
	err := loop(ctx)
	err = errors.Join(err, r.finish())
	r.names.Close()
	r.stacks.close()
	return errors.Join(err, r.fan.close(), c.Source.Close())
}

type runner struct {
	Config
	table    *table
	ledger   *ledger.Ledger
	causes   *causal.Engine
	loops    *loop.Finder
	episodes episode.Tracker
	budget   budget
	track    *track.Tracker
	ranks    *rollcall.Roll
	names    *symbols.Names
	faults   *joiner
	stacks   *stacks
	raw      deck // the raw tape of the source; nil: there is none
	sites    *sites
	fan      *fan
	meter    *proc.Meter
	started  time.Time
	ticked   time.Time
	seq      uint64
	records  uint64
	quiet    quiet
	over     bool // the last tick was the final one
}

func newRunner(c Config) *runner {
	now := c.Clock.Now()
	meter, err := proc.NewMeter(proc.FS{})
	if err != nil {
		c.Log.Debug("host state unavailable", "error", err)
		meter = &proc.Meter{}
	}
	var agent uint32
	if a, ok := c.Source.(Agent); ok {
		agent = a.AgentPID()
	}
	return &runner{Config: c, table: newTable(), ledger: ledger.New(agent), causes: causal.New(agent), loops: loop.New(), track: track.New(), ranks: rollcall.New(), names: newNames(c.Source), faults: newJoiner(), stacks: newStacks(c.Source), sites: newSites(),
		fan: newFan(c.Sinks, c.Log), meter: meter, started: now, ticked: now, quiet: quiet{Deadband: c.Quiet}, budget: budget{Budget: govern.Budget{Forced: c.Forced}}}
}

// loop returns nil when ctx or the input ends.
func (r *runner) loop(ctx context.Context) error {
	var wake <-chan struct{}
	patience := func() time.Duration { return 4 * r.Poll }
	if w, ok := r.Source.(Waker); ok {
		wake, patience = w.Wake(), w.Patience
	}
	pause := r.Poll
	wait := pause
	for {
		poll := r.Clock.After(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-poll:
		}
		until := r.ticked.Add(r.Interval)
		if half := r.Clock.Now().Add(r.Interval / 2); half.After(until) {
			until = half // however long a tick takes, there is time to read
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

// play is loop with the ticks of a recording.
func (r *runner) play(ctx context.Context, rec Recording) error {
	for ctx.Err() == nil && !r.over {
		if _, _, err := r.poll(time.Time{}); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var t tick.Tick
		if rec.Due(&t) {
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

// poll reads what has arrived and passes it on, in batches of a bounded size: all of it, or
// as much as there is time for until then, if that is not zero. A tick must not wait for
// records that come faster than they are read: it is what has fewer of them made.
func (r *runner) poll(until time.Time) (calls int, more bool, err error) {
	for first := true; first || more && err == nil && (until.IsZero() || r.Clock.Now().Before(until)); first = false {
		b := r.fan.batch()
		more, err = r.Source.Poll(&b.Batch)
		r.functions(&b.Batch, r.names.Batch)
		r.stacks.batch(&b.Batch)
		r.sites.batch(&b.Batch)
		r.table.add(b.Calls)
		r.track.Batch(&b.Batch)
		r.ranks.Batch(&b.Batch)
		r.ledger.Batch(&b.Batch)
		steps := r.ledger.Steps()
		r.causes.Add(steps)
		r.loops.Batch(&b.Batch, steps)
		r.faults.batch(r.Source, &b.Batch)
		r.records += uint64(len(b.Calls))
		calls += len(b.Calls)
		r.fan.send(b)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("read the source: %w", err)
	}
	return calls, more, err
}

// finish stops the source, reads what had arrived and makes the last tick.
func (r *runner) finish() error {
	err := r.Source.Stop()
	if _, _, perr := r.poll(time.Time{}); !errors.Is(perr, io.EOF) {
		err = errors.Join(err, perr)
	}
	r.settleNames()
	r.settleStacks()
	if r.over {
		return err
	}
	return errors.Join(err, r.tick(r.Clock.Now(), true))
}

func (r *runner) tick(now time.Time, final bool) error {
	r.seq++
	return r.complete(&tick.Tick{Time: now, Started: r.started, Seq: r.seq, Window: now.Sub(r.ticked), Records: r.records, Final: final})
}

// complete fills a tick and passes it on. What causes are found by is in it before they
// are looked for, and the same when it is played.
func (r *runner) complete(t *tick.Tick) error {
	if err := r.Source.Totals(t); err != nil {
		return fmt.Errorf("read totals: %w", err)
	}
	slices.SortFunc(t.Processes, byPID)
	slices.SortFunc(t.Others, byPID)
	r.table.fill(t)
	if _, recorded := r.Source.(Recording); !recorded {
		if err := r.machine(t); err != nil {
			return err
		}
	}
	r.quiet.look(t)
	r.ledger.Tick(t)
	r.loops.Tick(t)
	r.track.Tick(t)
	r.ranks.Tick(t)
	r.faults.tick(t)
	r.causes.Tick(t)
	r.quiet.chains = len(t.Chains)
	r.names.Tick(t)
	r.stacks.tick(t)
	r.sites.tick(t)
	introduce(t)
	if r.Hide != nil {
		r.Hide(t)
	}
	r.episodes.Tick(t)
	if s, ok := r.Source.(Thinner); ok && !t.Final {
		for op, d := range slowest(t.Ops) {
			if err := s.SetSlow(op, d); err != nil {
				return err
			}
		}
	}
	r.ticked, r.over = t.Time, t.Final
	r.fan.tick(t)
	return nil
}

func byPID(a, b tick.Process) int { return cmp.Compare(a.PID, b.PID) }
