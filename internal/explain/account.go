package explain

import (
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// split is a time with its parts, in nanoseconds; the parts add up to it.
type split struct{ total, onCPU, runnable, throttled, blocked, partial uint64 }

// splitOf returns the parts of all of an operation's calls. Sums are read while calls are counted,
// so a part may be one call ahead of its total: it is truncated.
func splitOf(c *tick.Counts) split {
	s := split{total: c.Total}
	rest := c.Total
	take := func(part uint64) uint64 {
		part = min(part, rest)
		rest -= part
		return part
	}
	s.runnable = take(c.Runnable)
	s.throttled = take(c.Throttled)
	s.partial = take(c.PartialNS)
	s.onCPU = take(c.OnCPU)
	s.blocked = rest
	return s
}

// lack subtracts a share of each part of another time, down to zero.
func (s *split) lack(o *split, share float64) {
	s.total = 0
	for _, x := range [...]struct {
		part *uint64
		off  uint64
	}{{&s.onCPU, o.onCPU}, {&s.runnable, o.runnable}, {&s.throttled, o.throttled}, {&s.blocked, o.blocked}, {&s.partial, o.partial}} {
		*x.part -= min(uint64(share*float64(x.off)), *x.part)
		s.total += *x.part
	}
}

// scaled returns the split with the given total and its parts in proportion; they add up again.
func (s split) scaled(total uint64) split {
	if total == s.total || s.total == 0 {
		return s
	}
	f := float64(total) / float64(s.total)
	out := s
	out.total = total
	rest := total
	for _, part := range []*uint64{&out.onCPU, &out.runnable, &out.throttled, &out.blocked, &out.partial} {
		*part = min(uint64(f*float64(*part)), rest)
		rest -= *part
	}
	largest := &out.onCPU // takes the rounding difference
	for _, part := range []*uint64{&out.runnable, &out.throttled, &out.blocked, &out.partial} {
		if *part > *largest {
			largest = part
		}
	}
	*largest += rest
	return out
}

// own returns the time of an operation's calls outside the traced calls that they made.
func own(c *tick.Counts) uint64 { return c.Total - min(c.Inner, c.Total) }

// nestedMeasured returns the number of an operation's nested calls that were timed. Counted-only
// calls are, except in rare cases, launches inside launches: nested.
func nestedMeasured(c *tick.Counts) uint64 {
	return min(c.Nested-min(c.Unmeasured, c.Nested), c.Done)
}

// outermost returns, for each operation of one process, the time of its outermost calls. The sum is
// exact: it is the sum of all calls' own times. An operation is exact, with its parts, if all or
// none of its calls were nested. Mixed operations share the rest in proportion to their numbers.
func outermost(ops []tick.Op) []split {
	nested := nestedTimes(ops)
	out := make([]split, len(ops))
	for i := range ops {
		s := splitOf(&ops[i].Sum)
		out[i] = s.scaled(s.total - min(uint64(nested[i]+0.5), s.total))
	}
	return out
}

// nestedTimes returns how much of each operation's time was inside other calls: in total, the inner
// time of the calls around them. A call whose outer call still runs, or never returned, counts as
// outermost.
func nestedTimes(ops []tick.Op) []float64 {
	inside := make([]float64, len(ops))
	var want, all, some, room float64
	for i := range ops {
		c := &ops[i].Sum
		want += float64(min(c.Inner, c.Total))
		if c.Nested == 0 || c.Done == 0 {
			continue
		}
		total := float64(c.Total)
		if n := nestedMeasured(c); n == c.Done {
			inside[i] = total
			all += total
		} else {
			inside[i] = total * float64(n) / float64(c.Done)
			some += inside[i]
			room += total - inside[i]
		}
	}
	f, g, h := 1.0, 1.0, 0.0 // of fully nested operations, of the others, of the others' room
	switch {
	case want <= all && all > 0:
		f, g = want/all, 0
	case want <= all+some && some > 0:
		g = (want - all) / some
	case room > 0:
		h = min(1, (want-all-some)/room)
	}
	for i := range ops {
		c := &ops[i].Sum
		switch {
		case c.Nested == 0 || c.Done == 0:
		case nestedMeasured(c) == c.Done:
			inside[i] *= f
		default:
			inside[i] = g*inside[i] + h*(float64(c.Total)-inside[i])
		}
	}
	return inside
}

// mixed reports whether only some of an operation's timed calls were nested, so that the split of
// its time is an estimate.
func mixed(c *tick.Counts) bool {
	n := nestedMeasured(c)
	return n > 0 && n < c.Done
}

// launches counts launches once: a driver launch inside a runtime launch is the same launch. ok is
// false if nesting was not watched.
func launches(ops []tick.Op) (n uint64, ok bool) {
	for i := range ops {
		c := &ops[i].Sum
		r := ops[i].Op.Row()
		if r == nil || r.Class != events.ClassLaunch || r.EntryOnly {
			continue
		}
		n += c.Calls - min(c.Unmeasured, c.Nested)
		ok = ok || c.Done > 0
	}
	return n, ok
}

// inDriverLaunches reports whether driver launches were counted inside runtime launches: the own
// time of these is then unknown.
func inDriverLaunches(ops []tick.Op) bool {
	for i := range ops {
		c := &ops[i].Sum
		if r := ops[i].Op.Row(); r != nil && r.Class == events.ClassLaunch && !r.EntryOnly && min(c.Unmeasured, c.Nested) > 0 {
			return true
		}
	}
	return false
}

// open returns the number of calls entered but not left.
func open(c *tick.Counts) uint64 {
	return c.Calls - min(c.Calls, c.Done+c.Abandoned+c.Unmeasured)
}
