package segment

import "ingero/internal/tick"

// rebatcher restores the original batches from a log's frames.
type rebatcher struct {
	tick.Batch // not delivered yet
	plan       []batchSize
	open       bool // the last of plan continues
}

// begin adds the batch sizes of the next frames.
func (s *rebatcher) begin(e *Entry) {
	sizes := e.batches
	if s.open && len(s.plan) > 0 && len(sizes) > 0 { // a batch was cut after calls or waits
		last := &s.plan[len(s.plan)-1]
		last.Calls, last.Waits = last.Calls+sizes[0].Calls, last.Waits+sizes[0].Waits
		sizes = sizes[1:]
	}
	s.plan, s.open = append(s.plan, sizes...), e.open
}

// take adds an entry, if it belongs to a batch.
func (s *rebatcher) take(e *Entry) bool {
	if len(s.plan) == 0 {
		return false
	}
	s.Calls, s.Waits, s.Procs = append(s.Calls, e.Calls...), append(s.Waits, e.Waits...), append(s.Procs, e.Lives...)
	s.Functions, s.Stacks = append(s.Functions, e.Functions...), append(s.Stacks, e.Stacks...)
	s.Ranges, s.Labels = append(s.Ranges, e.Ranges...), append(s.Labels, e.Labels...)
	return len(e.Calls)+len(e.Waits)+len(e.Lives)+len(e.Functions)+len(e.Stacks)+len(e.Ranges)+len(e.Labels) > 0
}

// maxPending bounds the records that wait for the rest of their batch. No session makes one so
// large.
const maxPending = 1 << 17

// next returns the size of the next batch; ok is false until the batch is complete.
func (s *rebatcher) next() (next batchSize, ok bool) {
	if len(s.plan) == 0 {
		return next, false
	}
	next = s.plan[0]
	ok = (len(s.plan) > 1 || !s.open) && len(s.Calls) >= next.Calls && len(s.Waits) >= next.Waits && len(s.Procs) >= next.Lives &&
		len(s.Functions) >= next.Functions && len(s.Stacks) >= next.Stacks && len(s.Ranges) >= next.Ranges && len(s.Labels) >= next.Labels
	if !ok && len(s.Calls)+len(s.Waits)+len(s.Procs)+len(s.Functions)+len(s.Stacks)+len(s.Ranges)+len(s.Labels) > maxPending {
		return s.rest()
	}
	return next, ok
}

// lacks reports whether the batch is incomplete and the next frames are not its rest: its frames
// were lost.
func (s *rebatcher) lacks() bool { return len(s.plan) > 1 || len(s.plan) == 1 && !s.open }

// rest returns the size of everything undelivered. It may be incomplete: frames were lost, or the
// log was truncated.
func (s *rebatcher) rest() (next batchSize, some bool) {
	s.plan, s.open = s.plan[:0], false
	next = batchSize{len(s.Calls), len(s.Waits), len(s.Procs), len(s.Functions), len(s.Stacks), len(s.Ranges), len(s.Labels)}
	return next, next != batchSize{}
}

// until returns the end of a batch's last record, Unix ns; 0: it has none.
func (s *rebatcher) until(n batchSize) (at int64) {
	for i := range s.Calls[:n.Calls] {
		at = max(at, s.Calls[i].End())
	}
	for i := range s.Waits[:n.Waits] {
		at = max(at, s.Waits[i].End())
	}
	for i := range s.Procs[:n.Lives] {
		at = max(at, s.Procs[i].Time)
	}
	for i := range s.Ranges[:n.Ranges] {
		at = max(at, s.Ranges[i].Time)
	}
	for i := range s.Labels[:n.Labels] {
		at = max(at, s.Labels[i].Time)
	}
	return at
}

// give appends a batch to b.
func (s *rebatcher) give(b *tick.Batch, n batchSize) {
	b.Calls, s.Calls = move(b.Calls, s.Calls, n.Calls)
	b.Waits, s.Waits = move(b.Waits, s.Waits, n.Waits)
	b.Procs, s.Procs = move(b.Procs, s.Procs, n.Lives)
	b.Functions, s.Functions = move(b.Functions, s.Functions, n.Functions)
	b.Stacks, s.Stacks = move(b.Stacks, s.Stacks, n.Stacks)
	b.Ranges, s.Ranges = move(b.Ranges, s.Ranges, n.Ranges)
	b.Labels, s.Labels = move(b.Labels, s.Labels, n.Labels)
	if len(s.plan) > 0 {
		s.plan = s.plan[:copy(s.plan, s.plan[1:])]
	}
}

// move moves the first n of from to the end of to.
func move[T any](to, from []T, n int) (all, left []T) {
	return append(to, from[:n]...), from[n:]
}
