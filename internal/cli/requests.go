package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// requestSums is a sink that sums up the requests to some processes (empty pids: all).
type requestSums struct {
	to   *explain.Requests
	pids []uint32
}

// Batch implements [tick.Sink].
func (requestSums) Batch(*tick.Batch) error { return nil }

// Tick implements [tick.Sink].
func (s requestSums) Tick(t *tick.Tick) error {
	if len(s.pids) > 0 {
		only := *t
		only.Requests = slices.DeleteFunc(slices.Clone(t.Requests), func(x tick.Request) bool { return !slices.Contains(s.pids, x.PID) })
		t = &only
	}
	s.to.Add(t)
	return nil
}

// Close implements [tick.Sink].
func (requestSums) Close() error { return nil }

// recordedRequests adds the requests of a recording that is not analyzed again.
func recordedRequests(ctx context.Context, r *query.Reader, s *query.Summary, f query.Filter, to *explain.Requests) error {
	_, err := r.Requests(ctx, &s.Session, f, time.Time{}, func(_ time.Time, list []tick.Request) bool {
		to.Add(&tick.Tick{Requests: list, Processes: s.Processes})
		return true
	})
	if errors.Is(err, query.ErrNoCalls) {
		return nil
	}
	return err
}
