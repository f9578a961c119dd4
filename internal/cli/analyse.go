package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// analyse plays the part of a recording from one time to another (zero: no
// bound) through a session, as if it happened now, and returns what that has
// found; the other sinks see it, too. A recording whose calls are gone has nothing to
// play: nil.
func analyse(ctx context.Context, r *query.Reader, s *query.Session, from, to time.Time, log *slog.Logger, also ...tick.Sink) (c *collector, err error) {
	rec, err := r.OpenLog(s)
	if errors.Is(err, query.ErrNoCalls) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	w := &windowed{Replay: store.NewReplay(rec, store.ReplayOptions{}), base: map[threadID]tick.Thread{}}
	if from.After(s.Started) {
		w.from = from.UnixNano()
	}
	if !to.IsZero() {
		w.to = to.UnixNano()
	}
	if w.from != 0 || w.to != 0 { // else it is played as it was
		rec.Window(w.from, orMax(w.to))
	}
	c = &collector{}
	err = session.Run(ctx, session.Config{Source: session.FromRecording(w), Clock: w.Replay, Sinks: append([]tick.Sink{c}, also...), Poll: replayPoll, Log: log})
	if store.Unreadable(err) {
		err = nil // up to there it is good; the summary tells of it
	}
	return c, errors.Join(err, ctx.Err())
}

// replayPoll is how much of a recording is read at a time. The outcome does not
// depend on it.
const replayPoll = 250 * time.Millisecond

func orMax(ns int64) int64 {
	if ns == 0 {
		return 1<<63 - 1
	}
	return ns
}

// threadID tells threads apart whose number was used again.
type threadID struct {
	pid, tid uint32
	since    int64
}

// windowed is a recording of which only a part happens: as if the trace had
// begun at from and ended at to (Unix ns; 0: no bound).
type windowed struct {
	*store.Replay
	from, to int64
	base     map[threadID]tick.Thread // the accounts as of from
}

// Poll implements [session.Source].
func (w *windowed) Poll(b *tick.Batch) (more bool, err error) {
	calls, waits, ended, procs, ranges := len(b.Calls), len(b.Waits), len(b.Ended), len(b.Procs), len(b.Ranges)
	more, err = w.Replay.Poll(b)
	b.Calls = kept(b.Calls, calls, func(c *events.Call) bool { return w.inside(c.Start, c.Start) })
	b.Waits = kept(b.Waits, waits, func(x *events.Wait) bool { return w.inside(x.Start, x.End()) })
	b.Procs = kept(b.Procs, procs, func(e *tick.ProcEvent) bool { return w.inside(e.Time, e.Time) })
	b.Ranges = kept(b.Ranges, ranges, func(r *tick.Range) bool { return w.inside(r.Time, r.Time) })
	b.Ended = kept(b.Ended, ended, w.since)
	if err == nil && w.to != 0 && w.Now().UnixNano() >= w.to && !more {
		return false, io.EOF
	}
	return more, err
}

// inside tells whether what lasted from start to end is in the window, in part.
func (w *windowed) inside(start, end int64) bool {
	return (w.from == 0 || end >= w.from) && (w.to == 0 || start < w.to)
}

// kept removes those elements from index on that are not wanted.
func kept[T any](s []T, from int, want func(*T) bool) []T {
	out := s[:from]
	for i := from; i < len(s); i++ {
		if want(&s[i]) {
			out = append(out, s[i])
		}
	}
	return out
}

// Totals implements [session.Source]. Until the window begins it notes where the
// accounts of threads stand.
func (w *windowed) Totals(t *tick.Tick) error {
	if err := w.Replay.Totals(t); err != nil {
		return err
	}
	if w.from != 0 && t.Time.UnixNano() <= w.from {
		clear(w.base)
		for i := range t.Threads {
			x := &t.Threads[i]
			w.base[threadID{x.PID, x.TID, x.Since}] = *x
		}
		t.Threads, t.HostSums = nil, nil
		return nil
	}
	t.Threads = kept(slices.Clone(t.Threads), 0, w.since)
	return nil
}

// since takes off a thread's account what it had before the window, and tells
// whether the thread is in the window.
func (w *windowed) since(x *tick.Thread) bool {
	if w.from == 0 {
		return true
	}
	was, known := w.base[threadID{x.PID, x.TID, x.Since}]
	if known {
		for _, p := range [...]struct{ now, was *tick.Times }{{&x.InCalls, &was.InCalls}, {&x.Between, &was.Between}, {&x.Sync, &was.Sync}} {
			p.now.OnCPU -= min(p.was.OnCPU, p.now.OnCPU)
			p.now.Runnable -= min(p.was.Runnable, p.now.Runnable)
			p.now.Throttled -= min(p.was.Throttled, p.now.Throttled)
			p.now.Blocked -= min(p.was.Blocked, p.now.Blocked)
		}
		x.Since = was.Until
	}
	return x.Until >= w.from
}
