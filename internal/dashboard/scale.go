package dashboard

import (
	"time"

	"ingero/internal/wire"
)

// scale divides a window into buckets of one length, aligned to multiples of it.
type scale struct {
	start, width int64 // ns
	n            int
}

// widths are the possible lengths of buckets: multiples of rollups, and divisors of a second.
var widths = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute,
	30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour,
	28 * 24 * time.Hour, 364 * 24 * time.Hour, 10 * 364 * 24 * time.Hour,
}

// divided divides the question's window into at most the requested number of buckets, none shorter
// than least. Call it after sessions.
func (a *request) divided(least time.Duration) scale {
	from, to := a.q.From.UnixNano(), a.q.To.UnixNano()
	for _, w := range widths {
		s := scale{start: from - from%int64(w), width: int64(w)}
		s.n = int((to - s.start + s.width - 1) / s.width)
		if w >= least && (s.n <= a.q.Buckets || w == widths[len(widths)-1]) {
			return s
		}
	}
	return scale{start: from, width: max(to-from, 1), n: 1}
}

// bucket returns the bucket of a time, which may lie outside.
func (s *scale) bucket(ns int64) int {
	if ns < s.start {
		return -1
	}
	return int((ns - s.start) / s.width)
}

// spread calls add for each bucket that overlaps [from, to), with its proportional part of v. The
// parts add up to the part of v in the window.
func (s *scale) spread(from, to int64, v uint64, add func(bucket int, v uint64)) {
	if to <= from {
		return
	}
	share := func(t int64) uint64 { return uint64(float64(v) * float64(t-from) / float64(to-from)) }
	for i := max(s.bucket(from), 0); i < s.n; i++ {
		lo, hi := s.start+int64(i)*s.width, s.start+int64(i+1)*s.width
		if lo >= to {
			return
		}
		part := share(min(hi, to)) - share(max(lo, from))
		if hi >= to { // the rounding remainder
			part = v - share(max(lo, from))
		}
		add(i, part)
	}
}

// about returns the question's scope. Call it after sessions.
func (a *request) about() wire.Scope {
	return wire.Scope{From: a.q.From.UTC(), To: a.q.To.UTC(), Node: a.Node}
}

func (s *scale) json() wire.Scale {
	return wire.Scale{StartMS: wire.Millis(s.start), BucketMS: float64(s.width) / 1e6, Buckets: s.n}
}
