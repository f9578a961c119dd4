package cli

import (
	"slices"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// requestsTo returns the requests to some processes (empty pids: all) that arrived in the ranges.
func requestsTo(list []tick.Request, pids []uint32, within query.Ranges) []tick.Request {
	return slices.DeleteFunc(slices.Clone(list), func(x tick.Request) bool {
		return len(pids) > 0 && !slices.Contains(pids, x.PID) || !within.Contains(x.PID, x.Arrived, x.Arrived)
	})
}

// requestSums is a sink that sums up the requests to some processes (empty pids: all) that arrived
// in the ranges.
type requestSums struct {
	tick.TicksOnly
	to     *explain.Requests
	pids   []uint32
	within query.Ranges
}

// Tick implements [tick.Sink].
func (s requestSums) Tick(t *tick.Tick) error {
	only := *t
	only.Requests = requestsTo(t.Requests, s.pids, s.within)
	only.EngineSteps = slices.DeleteFunc(slices.Clone(t.EngineSteps), func(x tick.EngineSteps) bool {
		return s.within != nil || len(s.pids) > 0 && !slices.Contains(s.pids, x.PID) // labels do not select steps
	})
	s.to.Add(&only)
	return nil
}

// Close implements [tick.Sink].
func (requestSums) Close() error { return nil }
