package segment

import (
	"errors"

	"ingero/internal/store/log"
)

// unreadError is about frames whose calls the index knows.
type unreadError struct {
	error
	until int64 // latest end of these calls, Unix ns
}

// Unwrap returns the reason.
func (e *unreadError) Unwrap() error { return e.error }

// unread adds to an error about the frames from an offset on when their last call ended, if the
// index has it.
func (s *segmentReader) unread(at int64, err error) error {
	if s.index == nil {
		return err
	}
	to := s.frames.Offset
	if kind, _ := log.HeadKind(s.frames.From, at); kind == frameWaits {
		to++ // the next frame has the calls of the same time
	}
	e := &unreadError{error: err}
	for i := range s.index.calls {
		if f := &s.index.calls[i]; f.at >= at && f.at < to {
			e.until = max(e.until, f.last)
		}
	}
	return e
}

// report reports the unreadable part, if there is one, up to the next record that was read.
func (r *Replay) report(next int64) {
	if r.unread == nil {
		return
	}
	var e *unreadError
	if errors.As(r.unread, &e) {
		next = max(next, e.until)
	}
	r.Damaged(r.unread, FromUnixNano(r.read), FromUnixNano(max(next, r.read)))
	r.unread = nil
}

// span returns when the first and the last call of an entry ended, in Unix ns. If it has none, it
// returns the ends of waits, or the time of a tick.
func (e *Entry) span() (first, last int64, some bool) {
	switch {
	case len(e.Calls) > 0:
		return e.Calls[0].End(), e.Calls[len(e.Calls)-1].End(), true
	case len(e.Waits) > 0:
		return e.Waits[0].End(), e.Waits[len(e.Waits)-1].End(), true
	case e.Tick != nil:
		return UnixNano(e.Tick.Time), UnixNano(e.Tick.Time), true
	}
	return 0, 0, false
}
