package query

import (
	"context"
	"time"

	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Slice is a piece of a recording: calls and waits, or the accounts of the threads as of
// a time. It is the visitor's until it returns.
type Slice struct {
	Calls   []events.Call
	Waits   []events.Wait
	Time    time.Time // zero: of calls and waits
	Threads []tick.Thread
}

// Slices visits the accounts of threads, tick by tick, of the filter's window, and of
// the calls and waits those of the first length of each every, where every is not 0;
// some beside them come too. It takes as long as reading the files does.
func (r *Reader) Slices(ctx context.Context, f Filter, every, length time.Duration, visit func(*Slice)) (Coverage, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return Coverage{}, err
	}
	from, to := bounds(f)
	var x Slice
	return r.entries(ctx, &s, func(l *store.Log) {
		l.Window(from, to)
		l.Slices(int64(every), int64(length))
	}, func(e *store.Entry) bool {
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
