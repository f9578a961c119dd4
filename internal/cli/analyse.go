package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/session"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// lead is how much of a recording is replayed before a window. The analysis judges by the ticks of the
// last minute, and the first replayed tick has the counts of the whole time before it.
const lead = 70 * time.Second

// analyse replays the calls of a recording between from and to (zero: no bound) through a
// session and returns the collected results. The sinks in also receive the same ticks and
// batches. analyse returns nil if the recording's calls have been deleted.
func analyse(ctx context.Context, r *query.Reader, s *query.Session, from, to time.Time, log *slog.Logger, also ...tick.Sink) (*collector, error) {
	return analyseWithin(ctx, r, s, from, to, nil, log, also...)
}

// analyseWithin is analyse with results that are restricted to the ranges of labels (nil: to none).
func analyseWithin(ctx context.Context, r *query.Reader, s *query.Session, from, to time.Time, within query.Ranges, log *slog.Logger, also ...tick.Sink) (c *collector, err error) {
	rec, err := r.OpenLog(s)
	if errors.Is(err, query.ErrNoCalls) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	c = &collector{within: within}
	w := &windowed{base: map[threadID]tick.Thread{}}
	w.Replay = segment.NewReplay(rec, segment.ReplayOptions{Damaged: func(err error, from, to time.Time) {
		if w.inside(from.UnixNano(), to.UnixNano()) {
			c.unread.add(err, time.Duration(min(to.UnixNano(), orMax(w.to))-max(from.UnixNano(), w.from)))
		}
	}})
	if from.After(s.Started) {
		w.from = from.UnixNano()
		rec.SkipTo(w.from - int64(lead))
	}
	if !to.IsZero() {
		w.to = to.UnixNano()
	}
	if w.from != 0 || w.to != 0 { // without bounds, the recording is replayed unchanged
		rec.Window(w.from, orMax(w.to))
	}
	err = session.Run(ctx, session.Config{Source: session.FromRecording(w), Clock: w.Replay, Sinks: append([]tick.Sink{c}, also...), Poll: replayPoll, Log: log})
	return c, errors.Join(err, ctx.Err())
}

// unread has the unreadable parts that a replay met in its window.
type unread struct {
	parts []string      // why each of them is unreadable
	time  time.Duration // upper bound of what is missing
}

func (u *unread) add(err error, missing time.Duration) {
	u.parts, u.time = append(u.parts, err.Error()), u.time+missing
}

// has reports whether the remark counts the part that is unreadable for this reason.
func (u *unread) has(why string) bool { return slices.Contains(u.parts, why) }

// remark describes the unreadable parts in a report.
func (u *unread) remark() string {
	return fmt.Sprintf("up to %s of the recording cannot be read, in %s: %s; ingero db verify lists the damage",
		explain.Duration(int64(u.time)), counted(len(u.parts), "place"), u.parts[0])
}

// replayPoll is how much recorded time one poll reads. The result does not depend on it.
const replayPoll = 250 * time.Millisecond

func orMax(ns int64) int64 {
	if ns == 0 {
		return 1<<63 - 1
	}
	return ns
}

// threadID identifies a thread. The start of its account separates threads with a reused ID.
type threadID struct {
	pid, tid uint32
	since    int64
}

// windowed replays only a part of a recording, as if the trace had begun at from and
// ended at to (Unix ns; 0: no bound).
type windowed struct {
	*segment.Replay
	from, to int64
	base     map[threadID]tick.Thread // thread accounts at from
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

// inside reports whether the time from start to end overlaps the window.
func (w *windowed) inside(start, end int64) bool {
	return (w.from == 0 || end >= w.from) && (w.to == 0 || start < w.to)
}

// kept filters s in place from index from on: it keeps the elements that want accepts.
func kept[T any](s []T, from int, want func(*T) bool) []T {
	out := s[:from]
	for i := from; i < len(s); i++ {
		if want(&s[i]) {
			out = append(out, s[i])
		}
	}
	return out
}

// Totals implements [session.Source]. Before the window begins, it saves the accounts of
// the threads. The machine's state is averaged, and is left out then.
func (w *windowed) Totals(t *tick.Tick) error {
	if err := w.Replay.Totals(t); err != nil {
		return err
	}
	t.Requests = kept(t.Requests, 0, func(x *tick.Request) bool { return w.inside(x.Arrived, x.EndTime()) })
	if w.from != 0 && t.Time.UnixNano() <= w.from {
		clear(w.base)
		for i := range t.Threads {
			x := &t.Threads[i]
			w.base[threadID{x.PID, x.TID, x.Since}] = *x
		}
		t.Threads, t.HostSums, t.Host = nil, nil, tick.Host{}
		return nil
	}
	t.Threads = kept(slices.Clone(t.Threads), 0, w.since)
	return nil
}

// since subtracts from a thread's account the times before the window. It reports whether
// the thread is in the window.
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
