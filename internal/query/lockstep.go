package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/pkg/events"
)

// Skew is the clock skew between two machines.
type Skew struct {
	Node, Against string
	// Known reports whether jobs on both ran in lockstep, so that the skew can be measured. Then
	// Node's clock was ahead by Ahead, give or take Within; negative: behind.
	Known         bool
	Ahead, Within time.Duration
}

const (
	lockSteps = 256         // steps compared
	lockReach = time.Minute // largest skew searched for
	lockMost  = 16384       // synchronizing calls per thread to compare
	lockClear = 4           // how many times better than any other the best match must be
)

// Skews compares the machines' clocks with the first one's. Ranks of one job end each step
// together, and steps differ in length. If the ends of calls that wait for the GPU match on two
// machines at exactly one offset, that offset is their clock skew.
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

// skew compares two machines by the pair of sessions with the longest overlap.
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

// syncs returns the ordered ends of the calls that wait for the GPU, of the thread with most of
// them. It returns none for a thread with missing records.
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

// lockstep finds the offset at which b has a's rhythm, and its accuracy: half of the ends are
// within it. ok is false if no offset within reach stands out, as with independent jobs or equal
// steps.
func lockstep(a, b []int64) (ahead, within int64, ok bool) {
	n := min(lockSteps, len(a)/2)
	if n < lockSteps/4 {
		return 0, 0, false
	}
	a = a[(len(a)-n)/2:][:n] // from the middle, when both were running
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

// median returns the median of v, which it sorts.
func median(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/2]
}
