package query

import (
	"context"
	"fmt"
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

// overlaps reports whether a wait overlaps a window.
func overlaps(w *events.Wait, from, to int64) bool {
	return w.Start < to && (w.End() > from || w.Start >= from)
}

// Threads returns the threads' accounts as of the last tick of the filter's window, and those of
// threads that ended in the window as of their ends. They are exact even when records were dropped.
func (r *Reader) Threads(ctx context.Context, f Filter) ([]tick.Thread, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	from, to := bounds(f)
	var last, ended []tick.Thread
	c, err := r.entries(ctx, &s, func(l *segment.Log) { l.Window(math.MaxInt64, math.MinInt64) }, func(e *segment.Entry) bool { // no calls, no waits
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
	if err == nil && len(c.Damage) > 0 {
		err = fmt.Errorf("%w: %s", log.ErrCorrupt, strings.Join(c.Damage, "; "))
	}
	out := append(last, ended...)
	slices.SortFunc(out, tick.ByThread)
	return out, err
}
