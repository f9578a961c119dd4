package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
	"ingero/pkg/events"
)

// Calls returns the first limit matching calls in the order of their records, which is
// approximately that of their ends; 0 is no limit.
func (r *Reader) Calls(ctx context.Context, f Filter, limit int) ([]events.Call, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	var out []events.Call
	_, err = r.scan(ctx, &s, f, 0, func(c *events.Call, _ uint64) bool {
		out = append(out, *c)
		return limit == 0 || len(out) < limit
	})
	return out, err
}

// visitor is called for each matching call with its number in the session, until it returns false.
// It must not keep the call.
type visitor func(c *events.Call, number uint64) bool

// scan visits a session's calls from number after on. It skips unreadable parts and reports them.
func (r *Reader) scan(ctx context.Context, s *Session, f Filter, after uint64, visit visitor) (Coverage, error) {
	from, to := bounds(f)
	labels, err := r.Labelled(ctx, s, f)
	if err != nil {
		return Coverage{}, err
	}
	return r.entries(ctx, s, func(l *segment.Log) {
		l.Window(from, to)
		l.CallsOnly(after)
		skipTo(l, from)
	}, func(e *segment.Entry) bool {
		for i := range e.Calls {
			c := &e.Calls[i]
			n := e.First + uint64(i)
			if n >= after && c.Start >= from && c.Start < to && f.matches(c.PID, c.Op) && f.hasStack(c.Stack) && labels.Has(c) && !visit(c, n) {
				return false
			}
		}
		return true
	})
}

// skipTo lets a log skip the segments before a window. Records are in the order of their ends only to
// within a tick.
func skipTo(l *segment.Log, from int64) {
	if from != math.MinInt64 {
		l.SkipTo(from - int64(tickLength))
	}
}

// CallsFrom calls visit for each matching call from number first on, until visit returns false. The
// filter must select one session. CallsFrom skips unreadable parts and reports them.
func (r *Reader) CallsFrom(ctx context.Context, f Filter, first uint64, visit func(c *events.Call, number uint64) bool) (Coverage, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return Coverage{}, err
	}
	c, err := r.scan(ctx, &s, f, first, visit)
	if errors.Is(err, ErrNoCalls) {
		c.Missing, err = append(c.Missing, s.ID), nil
	}
	return c, err
}

// entries calls visit for each entry of a session's log. prepare may limit the entries first.
func (r *Reader) entries(ctx context.Context, s *Session, prepare func(*segment.Log), visit func(*segment.Entry) bool) (c Coverage, err error) {
	l, err := r.OpenLog(s)
	if segment.Unreadable(err) { // later segments may be intact
		c.Damage = append(c.Damage, err.Error())
		return c, nil
	}
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	prepare(l)
	var e segment.Entry
	for {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		err := l.Next(&e)
		switch {
		case errors.Is(err, io.EOF):
			c.Torn = l.Torn()
			if n, known := l.Number(); known && n < s.rolled {
				c.Damage = append(c.Damage, fmt.Sprintf("%v: the last calls of session %s, %d to %d, are lost", log.ErrCorrupt, s.ID, n, s.rolled-1))
			}
			if l.Cut() || l.Deleted() > 0 {
				c.Missing = append(c.Missing, s.ID)
			}
			return c, nil
		case segment.Unreadable(err):
			c.Damage = append(c.Damage, err.Error())
			continue
		case err != nil:
			return c, err
		}
		if !visit(&e) {
			return c, nil
		}
	}
}

// OpenLog opens the current log of a session for a replay; the caller must close it. The error is
// [ErrNoCalls] if the log is gone.
func (r *Reader) OpenLog(s *Session) (*segment.Log, error) {
	l, err := segment.OpenSession(r.files, s.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (session %s)", ErrNoCalls, s.ID)
	}
	return l, err
}

// bounds returns the filter's window in Unix nanoseconds.
func bounds(f Filter) (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !f.From.IsZero() {
		from = f.From.UnixNano()
	}
	if !f.To.IsZero() {
		to = f.To.UnixNano()
	}
	return from, to
}
