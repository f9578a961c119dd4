package query

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Filter selects what a question covers. The zero value is the whole latest session.
type Filter struct {
	Session string      // ID; "" is the latest, [AllSessions] all if the method supports it
	Node    string      // "": all; with AllSessions only
	PIDs    []uint32    // nil: all
	Ops     []events.Op // nil: all
	Stacks  []uint32    // user stack IDs, nil: all; for calls and [Reader.OpStats] only
	// Labels are those that calls must have at their start; nil: all. Accounts, requests, faults and
	// reads of servers must lie in the [Ranges] of the labels. Other answers ignore them.
	Labels []Label
	// From and To bound the starts of calls: [From, To). Zero is unbounded.
	From, To time.Time
}

// matches reports whether the filter selects an operation of a process.
func (f *Filter) matches(pid uint32, op events.Op) bool {
	return f.wants(pid) && (len(f.Ops) == 0 || slices.Contains(f.Ops, op))
}

func (f *Filter) wants(pid uint32) bool {
	return len(f.PIDs) == 0 || slices.Contains(f.PIDs, pid)
}

// cuts reports whether the window excludes a part of [start, end].
func (f *Filter) cuts(start, end time.Time) bool {
	return f.From.After(start) || !f.To.IsZero() && !f.To.After(end)
}

func (f *Filter) hasStack(id uint32) bool {
	return len(f.Stacks) == 0 || slices.Contains(f.Stacks, id)
}

// Summary sums up a session or a part of it.
type Summary struct {
	Session   Session
	From, To  time.Time // covered period
	Processes []tick.Process
	// Ops are the called operations, with Sum, Dur, Hist and Thinned, ordered as in a tick.
	Ops       []tick.Op
	Gaps      tick.Gaps
	Libraries []tick.Library
	Reports   []tick.Report
	Drops     []tick.Drop // of the whole session; nonzero ones

	// Rebuilt reports that counts come from records, as for a part of a session without the
	// kernel's counts. They lack calls whose records were lost; Abandoned and open calls are
	// unknown, and Hist is nil. Otherwise counts are exact.
	Rebuilt bool
	// CountedFrom and CountedTo are the ticks between which a part's counts, durations and gaps lie
	// if the counts are the kernel's, and so exact. Zero: they are not.
	CountedFrom, CountedTo time.Time
	// Thinned reports that some records stand for more than one call, or were lost.
	Thinned bool
	Torn    int64    // bytes of an incomplete frame at the log's end; Rebuilt only
	Damage  []string // why parts of the log could not be read; Rebuilt only
}

// Summary sums up what the filter selects. It returns [ErrNoSession] if there is no session, and
// [ErrNoCalls] for a part of a session whose calls are gone.
func (r *Reader) Summary(ctx context.Context, f Filter) (*Summary, error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, err
	}
	end := s.Updated
	if s.Ended.After(end) {
		end = s.Ended
	}
	sum := &Summary{Session: s, From: s.Started, To: end, Gaps: tick.Gaps{}}
	err = r.facts(ctx, sum, f)
	if err == nil {
		if f.cuts(s.Started, end) || len(f.Labels) > 0 {
			err = r.rebuild(ctx, sum, f)
		} else {
			err = r.stored(ctx, sum, f)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", s.ID, err)
	}
	slices.SortFunc(sum.Ops, func(a, b tick.Op) int { return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.PID, b.PID)) })
	return sum, nil
}

// facts reads what does not depend on a window.
func (r *Reader) facts(ctx context.Context, sum *Summary, f Filter) error {
	id := sum.Session.id
	all, err := r.processes(ctx, id)
	if err != nil {
		return err
	}
	for i := range all {
		if f.wants(all[i].PID) {
			sum.Processes = append(sum.Processes, all[i])
		}
	}
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var l tick.Library
		err := rows.Scan(&l.Path, &l.Lib, &l.BuildID, &l.Probes)
		sum.Libraries = append(sum.Libraries, l)
		return err
	}, "SELECT path, number, build_id, probes FROM libraries WHERE session = ? ORDER BY number, path", id)
	if err != nil {
		return err
	}
	if sum.Reports, err = r.Reports(ctx, &sum.Session); err != nil {
		return err
	}
	return r.rows(ctx, func(rows *sql.Rows) error {
		var d tick.Drop
		err := rows.Scan(&d.Reason, &d.Count)
		sum.Drops = append(sum.Drops, d)
		return err
	}, "SELECT reason, count FROM drops WHERE session = ? AND count > 0 ORDER BY reason", id)
}

// Reports returns what failed or was omitted in a session, by kind and object.
func (r *Reader) Reports(ctx context.Context, s *Session) (out []tick.Report, err error) {
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var x tick.Report
		err := rows.Scan(&x.Kind, &x.Object, &x.Why)
		out = append(out, x)
		return err
	}, "SELECT kind, object, why FROM reports WHERE session = ? ORDER BY kind, object, why", s.id)
	return out, err
}

// stored fills in the session's stored counts.
func (r *Reader) stored(ctx context.Context, sum *Summary, f Filter) error {
	err := r.rows(ctx, func(rows *sql.Rows) error {
		o := tick.Op{Dur: &stats.Sketch{}}
		s := &o.Sum
		var sketch, hist []byte
		err := rows.Scan(&o.PID, &o.Op, &s.Calls, &s.Done, &s.Errors, &s.Nested, &s.Unmeasured, &s.Abandoned, &s.Total,
			&s.OnCPU, &s.Runnable, &s.Inner, &s.Partial, &s.PartialNS, &o.Thinned, &sketch, &hist, &s.Throttled)
		if err != nil {
			return err
		}
		sum.Thinned = sum.Thinned || o.Thinned
		if !f.matches(o.PID, o.Op) {
			return nil
		}
		if err := o.Dur.UnmarshalBinary(sketch); err != nil {
			return err
		}
		if o.Hist, err = segment.UnmarshalHist(hist); err != nil {
			return err
		}
		sum.Ops = append(sum.Ops, o)
		return nil
	}, `SELECT pid, op, calls, done, errors, nested, unmeasured, abandoned, total_ns, oncpu_ns, runnable_ns, inner_ns, partial, partial_ns,
		thinned, sketch, hist, coalesce(throttled_ns, 0) FROM ops WHERE session = ?`, sum.Session.id)
	if err != nil {
		return err
	}
	return r.rows(ctx, func(rows *sql.Rows) error {
		var pid uint32
		var g tick.Gap
		err := rows.Scan(&pid, &g.Calls, &g.Count, &g.Total, &g.OnCPU, &g.Runnable, &g.Blocked, &g.Partial, &g.Throttled)
		if f.wants(pid) {
			sum.Gaps[pid] = &g
		}
		return err
	}, "SELECT pid, calls, count, total_ns, oncpu_ns, runnable_ns, blocked_ns, partial_ns, coalesce(throttled_ns, 0) FROM gaps WHERE session = ?", sum.Session.id)
}
