package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// Requests passes the requests to servers of a session to each, a tick's at a time, until each returns
// false: those in the filter's window, to the selected processes, of ticks later than after. at is the
// time of the tick, zero if the log ends before it. Labels count at the arrival. The slice is valid until
// each returns. Requests skips unreadable parts and reports them. The error is [ErrNoCalls] if the recording has been deleted.
func (r *Reader) Requests(ctx context.Context, s *Session, f Filter, after time.Time, each func(at time.Time, list []tick.Request) bool) (Coverage, error) {
	within, err := r.Ranges(ctx, s, f)
	if err != nil {
		return Coverage{}, err
	}
	from, to := bounds(f)
	var list []tick.Request
	more := true
	pass := func(at time.Time) {
		if len(list) > 0 {
			more, list = each(at, list), list[:0]
		}
	}
	c, err := r.entries(ctx, s, func(l *segment.Log) {
		l.Window(math.MaxInt64-1, math.MaxInt64) // no calls
		switch {
		case !after.IsZero():
			l.SkipTo(after.Add(-10 * tickLength).UnixNano())
		case from != math.MinInt64:
			l.SkipTo(from)
		}
	}, func(e *segment.Entry) bool {
		list = append(list, slices.DeleteFunc(e.Requests, func(x tick.Request) bool {
			return !f.wants(x.PID) || !within.Contains(x.PID, x.Arrived, x.Arrived) || x.EndTime() < from || x.Arrived >= to
		})...)
		switch {
		case e.Tick != nil && !e.Tick.Time.After(after):
			list = list[:0]
		case e.Tick != nil:
			pass(e.Tick.Time)
		}
		return more
	})
	if err == nil && more {
		pass(time.Time{})
	}
	return c, err
}

// maxRequestRows bounds the requests of a view: the latest of each session.
const maxRequestRows = 10_000

// requestRows appends the rows of a view of the table requests. The column time is the timestamp as
// text.
func (r *Reader) requestRows(ctx context.Context, s *Session, f Filter, v *StateView, out *SQLResult) error {
	var latest []tick.Request // from all % maxRequestRows on
	all := 0
	cover, err := r.Requests(ctx, s, f, time.Time{}, func(_ time.Time, list []tick.Request) bool {
		for i := range list {
			if len(latest) < maxRequestRows {
				latest = append(latest, list[i])
			} else {
				latest[all%maxRequestRows] = list[i]
			}
			all++
		}
		return true
	})
	if errors.Is(err, ErrNoCalls) {
		cover.Missing, err = append(cover.Missing, s.ID), nil
	}
	out.Coverage.Add(cover)
	if all > len(latest) {
		out.Cut = fmt.Sprintf("%d earlier requests of the %d are left out", all-len(latest), all)
	}
	names := v.names()
	for i := range latest {
		x := &latest[(all+i)%len(latest)]
		row := make([]any, len(names))
		for j, name := range names {
			if name == "time" {
				row[j] = time.Unix(0, x.Arrived).UTC().Format("2006-01-02T15:04:05.000Z")
				continue
			}
			at := slices.IndexFunc(requestColumns, func(c requestColumn) bool { return c.Name == name })
			row[j] = requestColumns[at].table(s, x)
		}
		out.Rows = append(out.Rows, row)
	}
	return err
}
