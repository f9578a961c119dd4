package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/pkg/events"
)

// Skew is how the clock of a machine stood to that of another.
type Skew struct {
	Node, Against string
	// Known says that jobs on both went in lockstep, so that it can be told. Then
	// Node's clock was ahead by Ahead, give or take Within; negative: behind.
	Known         bool
	Ahead, Within time.Duration
}

const (
	lockSteps = 256         // that are compared
	lockReach = time.Minute // by which clocks are looked for to be off
	lockMost  = 16384       // synchronising calls of a thread that are looked at
	lockClear = 4           // times better than any other the best match must be
)

// Skews compares the clocks of the machines with that of the first. Ranks of one job
// end each step together, and steps differ in length: where the ends of calls that
// wait for the GPU have the same rhythm on two machines, and only at one distance, that
// is how far their clocks were apart.
func (r *Reader) Skews(ctx context.Context, sessions []Session) ([]Skew, error) {
	var out []Skew
	for i := range sessions {
		s := &sessions[i]
		if s.Node == sessions[0].Node || slices.ContainsFunc(out, func(k Skew) bool { return k.Node == s.Node }) {
			continue
		}
		k, err := r.skew(ctx, sessions, s.Node, sessions[0].Node)
		if err != nil {
			return nil, fmt.Errorf("compare the clocks of %s and %s: %w", s.Node, sessions[0].Node, err)
		}
		out = append(out, k)
	}
	return out, nil
}

// skew compares two machines by those of their sessions that went side by side longest.
func (r *Reader) skew(ctx context.Context, sessions []Session, node, against string) (Skew, error) {
	k := Skew{Node: node, Against: against}
	var a, b *Session
	var from, to time.Time
	for i := range sessions {
		for j := range sessions {
			x, y := &sessions[i], &sessions[j]
			if x.Node != against || y.Node != node {
				continue
			}
			start, end := later(x.Started, y.Started), earlier(x.Updated, y.Updated)
			if end.Sub(start) > to.Sub(from) {
				a, b, from, to = x, y, start, end
			}
		}
	}
	if a == nil {
		return k, nil
	}
	first, err := r.syncs(ctx, a, from, to)
	if err != nil {
		return k, err
	}
	second, err := r.syncs(ctx, b, from.Add(-lockReach), to.Add(lockReach))
	if err != nil {
		return k, err
	}
	ahead, within, ok := lockstep(first, second)
	k.Known, k.Ahead, k.Within = ok, time.Duration(ahead), time.Duration(within)
	return k, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// syncs returns when the calls that wait for the GPU ended, in order: those of the
// thread that made most. Of a thread that has records left out there is nothing to
// learn.
func (r *Reader) syncs(ctx context.Context, s *Session, from, to time.Time) ([]int64, error) {
	f := Filter{Session: s.ID, From: from, To: to}
	for i := range events.Catalog {
		if events.Catalog[i].Class == events.ClassSync {
			f.Ops = append(f.Ops, events.Catalog[i].Op)
		}
	}
	type thread struct{ pid, tid uint32 }
	ends := map[thread][]int64{}
	var most []int64
	cover, err := r.Each(ctx, f, func(_ *Session, c *events.Call, _ uint64) bool {
		if c.Flags&(events.CallNested|events.CallUnmeasured) != 0 {
			return true
		}
		k := thread{c.PID, c.TID}
		ends[k] = append(ends[k], c.End())
		if len(ends[k]) > len(most) {
			most = ends[k]
		}
		return len(most) < lockMost
	})
	if cover.Thinned {
		return nil, err
	}
	slices.Sort(most)
	return most, err
}

// lockstep finds the distance at which b has the rhythm of a, and how closely: half of
// the ends are no further from it. It is not ok where no distance within reach stands
// out, as that of jobs that are on their own, or whose steps are all alike.
func lockstep(a, b []int64) (ahead, within int64, ok bool) {
	n := min(lockSteps, len(a)/2)
	if n < lockSteps/4 {
		return 0, 0, false
	}
	a = a[(len(a)-n)/2:][:n] // of the middle: both were under way
	best, second := int64(math.MaxInt64), int64(math.MaxInt64)
	off := make([]int64, n)
	for k := 0; k+n <= len(b); k++ {
		for i := range off {
			off[i] = b[k+i] - a[i]
		}
		m := median(off)
		for i := range off {
			off[i] = max(off[i]-m, m-off[i])
		}
		switch spread := median(off); {
		case spread < best:
			ahead, best, second = m, spread, best
		case spread < second:
			second = spread
		}
	}
	inReach := ahead < int64(lockReach) && ahead > -int64(lockReach)
	return ahead, best, inReach && second < math.MaxInt64 && max(best, 1) <= second/lockClear
}

// median orders v.
func median(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/2]
}
