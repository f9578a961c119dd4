package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// AllSessions is the [Filter.Session] of all sessions of a database.
const AllSessions = "*"

// Coverage says how far an answer goes that comes from records.
type Coverage struct {
	Thinned bool     // some records stand for more than one call, or were lost
	Torn    int64    // bytes that a crash cut off the ends of logs
	Missing []string // sessions, or parts of some, whose calls are not kept any more
	Damage  []string // why a log could not be read to its end
}

// Group says which calls [Reader.OpStats] counts together, beside those of one
// operation.
type Group struct {
	Node, PID, Stack bool          // keep these apart
	Every            time.Duration // and these times, on multiples of it since the Unix epoch; 0: all in one
}

// OpStat is what the calls of one operation and group sum to.
type OpStat struct {
	Node  string    // "" unless it is told apart
	Time  time.Time // when the part of the time began; zero unless told apart
	PID   uint32    // 0 unless told apart
	Stack uint32    // likewise
	Op    events.Op
	Sum   tick.Counts // of the records, by weight; Inner and Abandoned are 0
	Dur   *stats.Sketch
}

type statKey struct {
	node       string
	time       int64
	pid, stack uint32
	op         events.Op
}

// OpStats sums up the calls that match, in the order of time, node, op, pid and
// stack. Counts and sums are exact for what was recorded, and quantiles are
// within [stats.SketchError].
func (r *Reader) OpStats(ctx context.Context, f Filter, g Group) ([]OpStat, Coverage, error) {
	found := map[statKey]*OpStat{}
	cover, err := r.Each(ctx, f, func(s *Session, c *events.Call) bool {
		k := statKey{op: c.Op}
		if g.Node {
			k.node = s.Node
		}
		if g.PID {
			k.pid = c.PID
		}
		if g.Stack {
			k.stack = c.Stack
		}
		if g.Every > 0 {
			k.time = floor(c.Start, int64(g.Every))
		}
		o := found[k]
		if o == nil {
			o = &OpStat{Node: k.node, PID: k.pid, Stack: k.stack, Op: k.op, Dur: &stats.Sketch{}}
			if g.Every > 0 {
				o.Time = at(k.time)
			}
			found[k] = o
		}
		addCall(&o.Sum, o.Dur, c)
		return true
	})
	out := make([]OpStat, 0, len(found))
	for _, o := range found {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b OpStat) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Op, b.Op), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Stack, b.Stack))
	})
	return out, cover, err
}

// floor is the largest multiple of step that is not above v.
func floor(v, step int64) int64 {
	m := v % step
	if m < 0 {
		m += step
	}
	return v - m
}

// Each calls visit for each call that matches, session by session, the oldest
// first, and in one in the order in which the records came; until it returns
// false. A call is visit's only until it returns. What cannot be read is passed
// over and told.
func (r *Reader) Each(ctx context.Context, f Filter, visit func(*Session, *events.Call) bool) (Coverage, error) {
	var cover Coverage
	sessions, err := r.chosen(ctx, f)
	if err != nil {
		return cover, err
	}
	for i := range sessions {
		s := &sessions[i]
		more := true
		torn, err := r.scan(ctx, s, f, func(c *events.Call) bool {
			cover.Thinned = cover.Thinned || c.Weight > 1
			more = visit(s, c)
			return more
		})
		cover.Torn += torn
		switch {
		case errors.Is(err, ErrNoCalls):
			cover.Missing = append(cover.Missing, s.ID)
		case errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrVersion), errors.Is(err, store.ErrNotLog):
			cover.Damage = append(cover.Damage, err.Error())
		case err != nil:
			return cover, fmt.Errorf("session %s: %w", s.ID, err)
		}
		if !more {
			break
		}
	}
	return cover, nil
}

// chosen returns the sessions that a filter is about, the oldest first.
func (r *Reader) chosen(ctx context.Context, f Filter) ([]Session, error) {
	if f.Session != AllSessions {
		s, err := r.Session(ctx, f.Session)
		return []Session{s}, err
	}
	all, err := r.Sessions(ctx)
	slices.Reverse(all)
	from, to := bounds(f)
	return slices.DeleteFunc(all, func(s Session) bool {
		return f.Node != "" && s.Node != f.Node || s.Started.UnixNano() >= to || !s.Ended.IsZero() && s.Ended.UnixNano() < from
	}), err
}

// addCall counts a call by its weight.
func addCall(s *tick.Counts, dur *stats.Sketch, c *events.Call) {
	w := uint64(c.Weight)
	s.Calls += w
	if c.Flags&events.CallNested != 0 {
		s.Nested += w
	}
	if c.Flags&events.CallUnmeasured != 0 {
		s.Unmeasured += w
		return
	}
	s.Done += w
	if c.Flags&events.CallFailed != 0 {
		s.Errors += w
	}
	s.Total += uint64(max(c.Duration, 0)) * w
	s.Runnable += uint64(max(c.Runnable, 0)) * w
	s.Throttled += uint64(max(c.Throttled, 0)) * w
	if c.Flags&events.CallLedgerPartial != 0 {
		s.Partial += w
		s.PartialNS += uint64(max(c.OnCPU+c.Blocked, 0)) * w
	} else {
		s.OnCPU += uint64(max(c.OnCPU, 0)) * w
	}
	dur.Add(c.Duration, c.Weight)
}
