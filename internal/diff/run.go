package diff

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/where"
	"ingero/pkg/events"
)

// Options select the processes of a recording to compare.
type Options struct {
	PIDs     []uint32 // nil: all
	Programs []string // names, or parts of the command line; nil: all
	Session  string   // ID of the recording; empty: chosen by time
}

// Run is one side of a comparison: a recording, or a part of one.
type Run struct {
	Path     string
	Session  query.Session
	From, To time.Time
	Cover    query.Coverage
	// Untimed lists the shed inputs (docs/design/overhead.md) without which calls have no time or
	// no count: parts and operations differ by that, too.
	Untimed []string

	r     *query.Reader
	every time.Duration // length of a block
	calls uint64        // of all processes
	roles []*role
}

// Role is the position of a process in its job, independent of its PID. Processes of one role are
// compared with each other.
type Role struct {
	Program string
	Rank    string // "" for none
}

// String returns the name: "train.py, rank 3".
func (r Role) String() string {
	if r.Rank == "" {
		return r.Program
	}
	return r.Program + ", rank " + r.Rank
}

// role has the processes of a run with one role.
type role struct {
	Role
	pids   []uint32
	ops    []query.OpStat // by block
	sums   map[events.Op]*opSum
	blocks int // blocks with calls
}

// opSum sums up the outermost calls of an operation in a run.
type opSum struct {
	calls, done uint64
	entered     uint64 // with the inner ones
	ns          uint64
	blocks      int // blocks with calls
}

// blocks are the block lengths, those of the rollups, each with the longest run that uses it.
var blocks = [...]struct{ length, upTo time.Duration }{
	{time.Second, 10 * time.Minute}, {10 * time.Second, 2 * time.Hour}, {time.Minute, 24 * time.Hour}, {10 * time.Minute, 14 * 24 * time.Hour}, {time.Hour, math.MaxInt64},
}

// Open reads a run: the recording that o names, or the latest one in a window, with its processes and
// sums. Zero times are no bounds. The caller keeps ownership of the reader.
func Open(ctx context.Context, r *query.Reader, from, to time.Time, o Options) (*Run, error) {
	s, err := o.session(ctx, r, from, to)
	if err != nil {
		return nil, err
	}
	end := s.Updated
	if s.Ended.After(end) {
		end = s.Ended
	}
	run := &Run{Path: r.Path(), Session: s, From: s.Started, To: end, r: r}
	if from.After(run.From) {
		run.From = from
	}
	if !to.IsZero() && to.Before(run.To) {
		run.To = to
	}
	if err := run.read(ctx, &o); err != nil {
		return nil, fmt.Errorf("session %s: %w", s.ID, err)
	}
	reports, err := r.Reports(ctx, &s)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", s.ID, err)
	}
	for _, x := range reports {
		name := x.Kind
		if x.Kind == "precision-lost" {
			name = x.Object
		}
		if slices.Contains(untimed, name) && !slices.Contains(run.Untimed, name) {
			run.Untimed = append(run.Untimed, name)
		}
	}
	return run, nil
}

// untimed are the shedding levels, and the budget's report on launches, after which not all calls
// are timed and counted.
var untimed = []string{"launches-counted", "calls-counted", "hot-off"}

// session returns the named recording, or the latest one that overlaps a window.
func (o *Options) session(ctx context.Context, r *query.Reader, from, to time.Time) (query.Session, error) {
	if o.Session != "" || from.IsZero() && to.IsZero() {
		return r.Session(ctx, o.Session)
	}
	all, err := r.Sessions(ctx)
	if err != nil {
		return query.Session{}, err
	}
	for _, s := range all {
		if (to.IsZero() || s.Started.Before(to)) && s.Updated.After(from) {
			return s, nil
		}
	}
	return query.Session{}, fmt.Errorf("%w in that time in %s", query.ErrNoSession, r.Path())
}

// read finds the roles and their sums.
func (run *Run) read(ctx context.Context, o *Options) error {
	all, err := run.r.Processes(ctx, run.Session.ID)
	if err != nil {
		return err
	}
	of, programs := map[uint32]*role{}, where.Programs(all)
	for i := range all {
		p := &all[i]
		if !o.wants(p, programs[p.PID]) {
			continue
		}
		name := Role{Program: programs[p.PID], Rank: p.Rank.String()}
		at := slices.IndexFunc(run.roles, func(x *role) bool { return x.Role == name })
		if at < 0 {
			at = len(run.roles)
			run.roles = append(run.roles, &role{Role: name, sums: map[events.Op]*opSum{}})
		}
		run.roles[at].pids = append(run.roles[at].pids, p.PID)
		of[p.PID] = run.roles[at]
	}
	stats, err := run.sums(ctx)
	if err != nil {
		return err
	}
	for i := range stats {
		run.calls += stats[i].Sum.Calls
		if x := of[stats[i].PID]; x != nil {
			x.add(&stats[i])
		}
	}
	run.roles = slices.DeleteFunc(run.roles, func(x *role) bool { return len(x.ops) == 0 })
	return nil
}

// sums reads the rollups with the finest blocks that fit the length of the run and still exist.
func (run *Run) sums(ctx context.Context) (stats []query.OpStat, err error) {
	length := run.To.Sub(run.From)
	for _, b := range blocks {
		if length > b.upTo {
			continue
		}
		f := query.Filter{Session: run.Session.ID, From: run.From, To: run.To}
		next, cover, err := run.r.OpStats(ctx, f, query.Group{PID: true, Every: b.length})
		if err != nil {
			return nil, err
		}
		if run.every > 0 && length < 2*minBatch*b.length {
			break
		}
		stats, run.every, run.Cover = next, b.length, cover
		if len(cover.Missing) == 0 || !run.Session.Pruned {
			break
		}
	}
	return stats, nil
}

// wants reports whether a process is selected.
func (o *Options) wants(p *tick.Process, program string) bool {
	if len(o.PIDs) > 0 && !slices.Contains(o.PIDs, p.PID) {
		return false
	}
	return len(o.Programs) == 0 || slices.ContainsFunc(o.Programs, func(name string) bool { return name == program || name == p.Comm })
}

func (x *role) add(o *query.OpStat) {
	if n := len(x.ops); n == 0 || !x.ops[n-1].Time.Equal(o.Time) {
		x.blocks++
	}
	x.ops = append(x.ops, *o)
	s := x.sums[o.Op]
	if s == nil {
		s = &opSum{}
		x.sums[o.Op] = s
	}
	outer := o.Sum.Calls - min(o.Sum.Nested, o.Sum.Calls)
	s.calls += outer
	s.entered += o.Sum.Calls
	s.done += o.Sum.Done
	s.ns += uint64(float64(o.Sum.Total) * s.outermost(&o.Sum))
	if outer > 0 {
		s.blocks++
	}
}

// outermost returns the share of outermost calls in a block. In a block with returns only, it is the share
// in the run.
func (s *opSum) outermost(c *tick.Counts) float64 {
	switch {
	case c.Calls > 0:
		return float64(c.Calls-min(c.Nested, c.Calls)) / float64(c.Calls)
	case s.entered > 0:
		return float64(s.calls) / float64(s.entered)
	}
	return 1
}

// time returns the call time of a role.
func (x *role) time() (ns uint64) {
	for _, s := range x.sums {
		ns += s.ns
	}
	return ns
}

// byTime compares roles by call time, largest first.
func byTime(a, b *role) int {
	return cmp.Or(cmp.Compare(b.time(), a.time()), cmp.Compare(a.Role.String(), b.Role.String()))
}
