package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// summaries returns a summary of each recording in the window. long has the IDs of the
// recordings with too many calls in the window to analyze again.
func (e *Env) summaries(ctx context.Context, r *query.Reader, w *window, o explainOptions) (out []*query.Summary, long map[string]bool, err error) {
	all, err := r.Sessions(ctx)
	if err != nil {
		return nil, nil, err
	}
	sessions, err := w.sessions(all, r.Path(), e.zone(o.utc))
	if err != nil {
		return nil, nil, err
	}
	if err := r.CheckRecorded(ctx, sessions, o.numbers()); err != nil {
		return nil, nil, err
	}
	f := query.Filter{From: w.from, To: w.to, Labels: o.with}
	if w.latest {
		f.Session = sessions[0].ID
		if len(o.with) == 0 {
			f.From = end(&sessions[0]).Add(-recent)
		}
		if f.PIDs, err = o.of(ctx, r, f.Session); err != nil {
			return nil, nil, err
		}
		if o.last > 0 {
			if f.From, err = startOfLast(ctx, r, &sessions[0], f, int(o.last)); err != nil {
				return nil, nil, err
			}
		}
	}
	long = map[string]bool{}
	for i := range sessions {
		f, within, err := o.filter(ctx, r, &sessions[i], f.From, f.To)
		if err != nil {
			return nil, nil, err
		}
		if within != nil {
			if len(within) == 0 {
				continue
			}
			f.From, f.To = within.Hull()
		}
		rolled, err := o.long(ctx, r, f)
		if err != nil {
			return nil, nil, err
		}
		s, err := summaryOf(ctx, r, f, rolled)
		if err != nil {
			return nil, nil, err
		}
		if out = append(out, s); rolled {
			long[f.Session] = true
		}
	}
	if len(out) == 0 {
		return nil, nil, r.NotLabelled(ctx, sessions, o.with)
	}
	return out, long, nil
}

// summaryOf summarizes a part of a recording: from its calls, or from rollups if rolled is
// set or the calls have been deleted.
func summaryOf(ctx context.Context, r *query.Reader, f query.Filter, rolled bool) (*query.Summary, error) {
	if !rolled {
		s, err := r.Summary(ctx, f)
		if !errors.Is(err, query.ErrNoCalls) {
			return s, err
		}
	}
	return r.Rolled(ctx, f)
}

// startOfLast returns the start of the last n calls of a recording. It doubles the time it
// looks back until it has n calls.
func startOfLast(ctx context.Context, r *query.Reader, s *query.Session, f query.Filter, n int) (time.Time, error) {
	for back := time.Second; ; back *= 2 {
		f.From = end(s).Add(-back)
		all := !f.From.After(s.Started)
		last := lastStarts{n: n}
		_, err := r.CallsFrom(ctx, f, 0, func(c *events.Call, _ uint64) bool {
			last.add(c.Start)
			return true
		})
		if err != nil {
			return time.Time{}, err
		}
		if at, ok := last.nth(); ok {
			return time.Unix(0, at), nil
		}
		if all {
			return time.Time{}, nil
		}
	}
}

// joined merges the summaries of recordings into the input of one report.
func joined(sums []*query.Summary) *explain.Input {
	in := &explain.Input{From: sums[0].From, To: sums[0].To, Node: sums[0].Session.Node, Gaps: tick.Gaps{}}
	drops := map[string]int{}
	for _, s := range sums {
		if s.From.Before(in.From) {
			in.From = s.From
		}
		if s.To.After(in.To) {
			in.To = s.To
		}
		in.Processes = append(in.Processes, s.Processes...)
		in.Ops = append(in.Ops, s.Ops...)
		in.Reports = append(in.Reports, s.Reports...)
		in.Gaps.Merge(s.Gaps)
		for _, d := range s.Drops {
			at, known := drops[d.Reason]
			if !known {
				at = len(in.Drops)
				drops[d.Reason] = at
				in.Drops = append(in.Drops, d)
				continue
			}
			in.Drops[at].Count += d.Count
		}
	}
	return in
}

// lastStarts keeps the n latest starts of calls, in memory for at most twice as many.
type lastStarts struct {
	n      int
	starts []int64
}

func (l *lastStarts) add(start int64) {
	if l.starts = append(l.starts, start); len(l.starts) >= 2*l.n {
		l.nth()
	}
}

// nth returns the earliest of the n latest starts; ok is false if there are fewer.
func (l *lastStarts) nth() (start int64, ok bool) {
	if len(l.starts) < l.n {
		return 0, false
	}
	slices.Sort(l.starts)
	l.starts = slices.Delete(l.starts, 0, len(l.starts)-l.n)
	return l.starts[0], true
}
