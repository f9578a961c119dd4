package ledger

const (
	// patienceNS is how long a thread that makes calls may go without the call that closed its
	// steps before another way is chosen.
	patienceNS = 30e9
	// stallNS is the time from which a thread counts as stalled between the ends of two calls.
	stallNS = 1e9
)

// rhythm is how a thread's calls follow each other in a step.
type rhythm struct {
	last   int64 // Unix ns: end of its last call
	moving int64 // time of the step, with at most a second of each stall, ns
}

// moved adds a call that closes no step. A stall counts as a second, so a step with one, however long,
// stays open until its closing call.
func (r *rhythm) moved(end int64) {
	r.moving += min(max(end-r.last, 0), stallNS)
	r.last = max(r.last, end)
}
