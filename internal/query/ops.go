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
	Thinned bool // some records stand for more than one call, or were lost
	// Estimate says that counts and sums are of records, some of which stand for more
	// than one call. Otherwise they are the kernel's, or of a record a call.
	Estimate bool
	Records  bool // some counts are of records alone: calls whose record was lost are not in them
	// Calls is how many calls the records that were read stand for, and Variance that of
	// this as an estimate: the sum of w (w-1), w being a record's weight. Of [Reader.Each] only.
	Calls, Variance float64
	// From and To are what counts are of that are the kernel's: from a tick to a tick.
	// Zero: all of the recordings, or exactly the window.
	From, To time.Time
	Torn     int64    // bytes that a crash cut off the ends of logs
	Missing  []string // sessions, or parts of some, whose calls are not kept any more
	Damage   []string // why a log could not be read to its end
	Least    []string // operations of which calls were not counted for some time
}

// Add adds what another part of the answer says of itself.
func (c *Coverage) Add(o Coverage) {
	c.Thinned, c.Estimate, c.Records = c.Thinned || o.Thinned, c.Estimate || o.Estimate, c.Records || o.Records
	if !o.From.IsZero() && (c.From.IsZero() || o.From.Before(c.From)) {
		c.From = o.From
	}
	c.To = later(c.To, o.To)
	c.Calls, c.Variance = c.Calls+o.Calls, c.Variance+o.Variance
	c.Torn += o.Torn
	c.Missing = append(c.Missing, o.Missing...)
	c.Damage = append(c.Damage, o.Damage...)
	for _, op := range o.Least {
		if !slices.Contains(c.Least, op) {
			c.Least = append(c.Least, op)
		}
	}
}

// weigh takes in the weight of a record.
func (c *Coverage) weigh(weight uint32) {
	w := float64(weight)
	c.Calls, c.Variance = c.Calls+w, c.Variance+w*(w-1)
	c.Thinned, c.Estimate = c.Thinned || weight > 1, c.Estimate || weight > 1
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
	Sum   tick.Counts // the kernel's, unless [Coverage.Estimate]: see [Reader.Counts]
	Dur   *stats.Sketch
}

type statKey struct {
	node       string
	time       int64
	pid, stack uint32
	op         events.Op
}

// opStats is an answer that is being made.
type opStats struct {
	Group
	found map[statKey]*store.Sum
	key   statKey // of the last sum that was asked for
	last  *store.Sum
}

// at returns the sum for calls that began at a time.
func (g *opStats) at(s *Session, time int64, pid uint32, op events.Op, stack uint32) *store.Sum {
	k := statKey{op: op}
	if g.Node {
		k.node = s.Node
	}
	if g.PID {
		k.pid = pid
	}
	if g.Stack {
		k.stack = stack
	}
	if g.Every > 0 {
		k.time = floor(time, int64(g.Every))
	}
	if g.last != nil && g.key == k {
		return g.last
	}
	sum := g.found[k]
	if sum == nil {
		sum = &store.Sum{}
		g.found[k] = sum
	}
	g.key, g.last = k, sum
	return sum
}

// OpStats sums up the calls that match, in the order of time, node, op, pid and
// stack. Counts and sums are those of [Reader.Counts], and durations those of the records of
// the same time, within [stats.SketchError]. By stack, by less than a second, and of a
// recording without the kernel's counts all is of records.
func (r *Reader) OpStats(ctx context.Context, f Filter, g Group) ([]OpStat, Coverage, error) {
	var cover Coverage
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return nil, cover, err
	}
	sums := &opStats{Group: g, found: map[statKey]*store.Sum{}}
	for i := range sessions {
		if err := r.sumCounted(ctx, &sessions[i], f, sums, &cover); err != nil {
			return nil, cover, fmt.Errorf("session %s: %w", sessions[i].ID, r.read(err))
		}
	}
	out := make([]OpStat, 0, len(sums.found))
	for k, sum := range sums.found {
		cover.Thinned = cover.Thinned || sum.Thinned
		if g.Every == 0 && sum.Counts == (tick.Counts{}) {
			continue
		}
		o := OpStat{Node: k.node, PID: k.pid, Stack: k.stack, Op: k.op, Sum: sum.Counts, Dur: &sum.Dur}
		if g.Every > 0 {
			o.Time = at(k.time)
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b OpStat) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Op, b.Op), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Stack, b.Stack))
	})
	slices.Sort(cover.Missing)
	cover.Missing = slices.Compact(cover.Missing)
	return out, cover, nil
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
// false. number is the call's in its session, from 0: it is the same in every copy. A
// call is visit's only until it returns. What cannot be read is passed over and told.
func (r *Reader) Each(ctx context.Context, f Filter, visit func(s *Session, c *events.Call, number uint64) bool) (Coverage, error) {
	var cover Coverage
	sessions, err := r.Chosen(ctx, f)
	if err != nil {
		return cover, err
	}
	for i := range sessions {
		s := &sessions[i]
		more := true
		c, err := r.scan(ctx, s, f, 0, func(c *events.Call, number uint64) bool {
			cover.weigh(c.Weight)
			more = visit(s, c, number)
			return more
		})
		cover.Records = true
		cover.Add(c)
		switch {
		case errors.Is(err, ErrNoCalls):
			cover.Missing = append(cover.Missing, s.ID)
		case err != nil:
			return cover, fmt.Errorf("session %s: %w", s.ID, err)
		}
		if !more {
			break
		}
	}
	return cover, nil
}

// Chosen returns the sessions that a filter is about, the oldest first.
func (r *Reader) Chosen(ctx context.Context, f Filter) ([]Session, error) {
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
