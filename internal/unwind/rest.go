package unwind

import "time"

// How long the kernel's misses stay unexamined after a look at them that led to nothing, as where a
// file in use has no table for lack of room: it is missed by each stack, and a look costs a system call
// for each file. The wait doubles each time.
const (
	restFirst = 20 * time.Millisecond
	restLast  = 500 * time.Millisecond
)

// rest is the time in which misses are not looked at.
type rest struct {
	until time.Time
	last  time.Duration
}

// over reports whether misses can be looked at.
func (r *rest) over(now time.Time) bool { return !now.Before(r.until) }

// begin records a look, and whether it led to work.
func (r *rest) begin(now time.Time, useful bool) {
	if r.last = min(max(2*r.last, restFirst), restLast); useful {
		r.last = 0
	}
	r.until = now.Add(r.last)
}
