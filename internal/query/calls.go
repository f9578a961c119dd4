package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"ingero/internal/store"
	"ingero/pkg/events"
)

// Calls returns the first limit calls that match, in the order in which their
// records came, which is about that of their ends; 0 is no limit.
func (r *Reader) Calls(ctx context.Context, f Filter, limit int) ([]events.Call, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	var out []events.Call
	_, err = r.scan(ctx, &s, f, func(c *events.Call) bool {
		out = append(out, *c)
		return limit == 0 || len(out) < limit
	})
	return out, err
}

// scan calls visit for each call that matches, until it returns false, and
// returns how many bytes at the log's end are no whole frame. The call is
// visit's only until it returns.
func (r *Reader) scan(ctx context.Context, s *Session, f Filter, visit func(*events.Call) bool) (torn int64, err error) {
	from, to := bounds(f)
	return r.entries(ctx, s, from, to, func(e *store.Entry) bool {
		for i := range e.Calls {
			c := &e.Calls[i]
			if c.Start >= from && c.Start < to && f.matches(c.PID, c.Op) && !visit(c) {
				return false
			}
		}
		return true
	})
}

// entries calls visit for each entry of a session's log, those of calls and waits
// outside of a window left out as far as that can be seen without decoding them.
func (r *Reader) entries(ctx context.Context, s *Session, from, to int64, visit func(*store.Entry) bool) (torn int64, err error) {
	file, log, err := r.openLog(s)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	log.Window(from, to)
	var e store.Entry
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := log.Next(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return log.Torn(), nil
			}
			return log.Torn(), fmt.Errorf("%s: %w", file.Name(), err)
		}
		if !visit(&e) {
			return 0, nil
		}
	}
}

// OpenLog opens the log of a session as it is now, to be played; the closer is its
// file's. The error is [ErrNoCalls] when it is gone.
func (r *Reader) OpenLog(s *Session) (io.Closer, *store.Log, error) {
	return r.openLog(s)
}

func (r *Reader) openLog(s *Session) (logFile, *store.Log, error) {
	if s.Pruned {
		return nil, nil, ErrNoCalls
	}
	file, err := r.openFile(s.log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w (%s)", ErrNoCalls, s.log)
	}
	if err != nil {
		return nil, nil, err
	}
	log, err := store.OpenLog(file, file.Size())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", file.Name(), err), file.Close())
	}
	return file, log, nil
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
