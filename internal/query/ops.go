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

// AllSessions is the [Filter.Session] that selects all sessions of a database.
const AllSessions = "*"

// Coverage describes how complete an answer from records is.
type Coverage struct {
	Thinned bool // some records stand for more than one call, or were lost
	// Estimate reports that counts and sums come from records some of which stand for more than one
	// call. Otherwise they are the kernel's, or each call has a record.
	Estimate bool
	Records  bool // some counts come from records only, without calls whose record was lost
	// Calls is how many calls the records stand for, and Variance the variance of that estimate:
	// the sum of w (w-1), where w is a record's weight. Set by [Reader.Each] only.
	Calls, Variance float64
	// From and To are the period of the kernel's counts, from a tick to a tick. Zero: all counts are
	// of exactly the window.
	From, To time.Time
	Torn     int64    // bytes of incomplete frames at the ends of logs, after a crash
	Missing  []string // sessions, or parts of some, whose calls were deleted
	Damage   []string // why parts of logs could not be read
	Least    []string // operations with calls that were temporarily not counted
}

// Add adds another part's coverage.
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

// weigh adds a record's weight.
func (c *Coverage) weigh(weight uint32) {
	w := float64(weight)
	c.Calls, c.Variance = c.Calls+w, c.Variance+w*(w-1)
	c.Thinned, c.Estimate = c.Thinned || weight > 1, c.Estimate || weight > 1
}

// Group selects how [Reader.OpStats] groups calls, besides by operation.
type Group struct {
	Node, PID, Stack bool          // group by these
	Label            string        // group by the value of the label with this key; "": none
	Every            time.Duration // group by this period, from the Unix epoch; 0: no periods
}

// OpStat sums up the calls of one operation and group.
type OpStat struct {
	Node  string    // "" unless grouped by it
	Time  time.Time // start of the period; zero unless grouped by it
	PID   uint32    // 0 unless grouped by it
	Stack uint32    // 0 unless grouped by it
	Label string    // value of the label; "" unless grouped by it, or for calls without it
	Op    events.Op
	Sum   tick.Counts // the kernel's, unless [Coverage.Estimate]: see [Reader.Counts]
	Dur   *stats.Sketch
}

type statKey struct {
	node       string
	time       int64
	pid, stack uint32
	label      string
	op         events.Op
}

// opStats is an answer under construction.
type opStats struct {
	Group
	labels labelValues // of the label to group by
	found  map[statKey]*store.Sum
	key    statKey // of the last returned sum
	last   *store.Sum
}

// calls reports whether an answer needs the calls: the kernel's counts and the rollups know neither
// stacks nor labels.
func (g *opStats) calls(f *Filter) bool {
	return g.Stack || g.Label != "" || len(f.Stacks) > 0 || len(f.Labels) > 0
}

// sum returns the sum for calls that began at a time.
func (g *opStats) sum(s *Session, time int64, pid uint32, op events.Op, stack uint32, label string) *store.Sum {
	k := statKey{op: op, label: label}
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
		k.time = stats.Floor(time, int64(g.Every))
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

// OpStats sums up the matching calls, ordered by time, node, op, pid and stack. Counts and sums are
// those of [Reader.Counts], durations come from the records of the same period, within
// [stats.SketchError]. Everything comes from records for a filter or group of
// stacks or labels, for periods below a second, and for recordings without the kernel's counts.
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
		o := OpStat{Node: k.node, PID: k.pid, Stack: k.stack, Label: k.label, Op: k.op, Sum: sum.Counts, Dur: &sum.Dur}
		if g.Every > 0 {
			o.Time = unixTime(k.time)
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b OpStat) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Op, b.Op), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Stack, b.Stack), cmp.Compare(a.Label, b.Label))
	})
	slices.Sort(cover.Missing)
	cover.Missing = slices.Compact(cover.Missing)
	return out, cover, nil
}

// Each calls visit for each matching call, session by session, oldest first, in the order of their
// records, until visit returns false. number is the call's in its session, from 0, and is the same
// in every copy. visit must not keep the call. Each skips unreadable parts and reports them.
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

// Chosen returns the sessions that a filter selects, oldest first.
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
