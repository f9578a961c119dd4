package query

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// Requests passes the requests to servers of a session to each, a tick's at a time: those in the
// filter's window, to the selected processes. The slice is valid until each returns. The error is
// [ErrNoCalls] if the recording has been deleted.
func (r *Reader) Requests(ctx context.Context, s *Session, f Filter, each func([]tick.Request)) (err error) {
	log, err := r.OpenLog(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	log.Window(math.MaxInt64-1, math.MaxInt64) // no calls
	if !f.From.IsZero() {
		log.SkipTo(f.From.UnixNano())
	}
	var e segment.Entry
	for ctx.Err() == nil {
		switch err := log.Next(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case segment.Unreadable(err):
			continue
		case err != nil:
			return err
		}
		list := slices.DeleteFunc(e.Requests, func(x tick.Request) bool {
			return !f.wants(x.PID) || !f.From.IsZero() && x.EndTime() < f.From.UnixNano() || !f.To.IsZero() && x.Arrived >= f.To.UnixNano()
		})
		if len(list) > 0 {
			each(list)
		}
	}
	return ctx.Err()
}
