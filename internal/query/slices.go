package query

import (
	"context"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Slice is a piece of a recording: calls and waits, or the threads' accounts as of a time. It is
// valid until the visitor returns.
type Slice struct {
	Calls   []events.Call
	Waits   []events.Wait
	Time    time.Time // zero for calls and waits
	Threads []tick.Thread
}

// Slices visits the threads' accounts in the filter's window, tick by tick, and calls and waits:
// those in the first length of each every, or all if every is 0, and some beside them. It reads at
// disk speed.
func (r *Reader) Slices(ctx context.Context, f Filter, every, length time.Duration, visit func(*Slice)) (Coverage, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return Coverage{}, err
	}
	from, to := bounds(f)
	var x Slice
	return r.entries(ctx, &s, func(l *segment.Log) {
		l.Window(from, to)
		l.Slices(int64(every), int64(length))
		skipTo(l, from)
	}, func(e *segment.Entry) bool {
		switch {
		case e.Tick != nil:
			x = Slice{Time: e.Tick.Time, Threads: e.Tick.Threads}
			if at := x.Time.UnixNano(); at < from || at-int64(2*time.Second) > to {
				return true
			}
		case len(e.Calls)+len(e.Waits) > 0:
			x = Slice{Calls: e.Calls, Waits: e.Waits}
		default:
			return true
		}
		visit(&x)
		return true
	})
}
