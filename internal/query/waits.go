package query

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Waits calls visit for each wait that overlaps the filter's window, until visit returns false. The
// order is that of their records, which is approximately that of their ends. Ops selects the calls
// that contain them. The filter must select one session. A wait is valid until visit returns. Waits
// skips unreadable parts and reports them.
func (r *Reader) Waits(ctx context.Context, f Filter, visit func(*events.Wait) bool) (Coverage, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return Coverage{}, err
	}
	from, to := bounds(f)
	return r.entries(ctx, &s, func(l *segment.Log) {
		l.Window(from, to)
		skipTo(l, from)
	}, func(e *segment.Entry) bool {
		for i := range e.Waits {
			w := &e.Waits[i]
			if overlaps(w, from, to) && f.matches(w.PID, w.Op) && !visit(w) {
				return false
			}
		}
		return true
	})
}

// Batches yields the matching calls with the window's waits as a session would deliver them: see
// [tick.Batch]. It includes all threads' waits, since another thread's wait may explain a call. A
// batch is valid until the next one. An error comes last, without a batch.
func (r *Reader) Batches(ctx context.Context, f Filter) iter.Seq2[*tick.Batch, error] {
	return func(yield func(*tick.Batch, error) bool) {
		from, to := bounds(f)
		more := true
		err := r.visit(ctx, f, from, to, func(e *segment.Entry) bool {
			b := &tick.Batch{
				Calls: slices.DeleteFunc(e.Calls, func(c events.Call) bool { return c.Start < from || c.Start >= to || !f.matches(c.PID, c.Op) }),
				Waits: slices.DeleteFunc(e.Waits, func(w events.Wait) bool { return !overlaps(&w, from, to) }),
				Procs: slices.DeleteFunc(e.Lives, func(p tick.ProcEvent) bool { return p.Time < from || p.Time >= to }),
			}
			if e.Tick != nil {
				b.Ended = slices.DeleteFunc(e.Tick.Threads, func(t tick.Thread) bool { return !t.Ended || t.Until < from || t.Until >= to })
			}
			if len(b.Calls)+len(b.Waits)+len(b.Procs)+len(b.Ended) > 0 {
				more = yield(b, nil)
			}
			return more
		})
		if err != nil && more {
			yield(nil, err)
		}
	}
}

// overlaps reports whether a wait overlaps a window.
func overlaps(w *events.Wait, from, to int64) bool {
	return w.Start < to && (w.End() > from || w.Start >= from)
}

// visit is entries for a filter's session.
func (r *Reader) visit(ctx context.Context, f Filter, from, to int64, visit func(*segment.Entry) bool) error {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return err
	}
	c, err := r.entries(ctx, &s, func(l *segment.Log) { l.Window(from, to) }, visit)
	if err == nil && len(c.Damage) > 0 {
		err = fmt.Errorf("%w: %s", log.ErrCorrupt, strings.Join(c.Damage, "; "))
	}
	return err
}

// Threads returns the threads' accounts as of the last tick of the filter's window, and those of
// threads that ended in the window as of their ends. They are exact even when records were dropped.
func (r *Reader) Threads(ctx context.Context, f Filter) ([]tick.Thread, error) {
	from, to := bounds(f)
	var last, ended []tick.Thread
	err := r.visit(ctx, f, math.MaxInt64, math.MinInt64, func(e *segment.Entry) bool { // no calls, no waits
		switch {
		case e.Tick == nil:
			return true
		case e.Tick.Time.UnixNano() > to:
			return false
		}
		last = last[:0]
		for _, t := range e.Tick.Threads {
			switch {
			case !f.wants(t.PID):
			case !t.Ended:
				last = append(last, t)
			case t.Until >= from:
				ended = append(ended, t)
			}
		}
		return true
	})
	out := append(last, ended...)
	slices.SortFunc(out, tick.ByThread)
	return out, err
}
