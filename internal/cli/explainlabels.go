package cli

import (
	"context"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// filter returns the filter of a recording's processes in a window. With labels, within are the time
// ranges in which processes had them, and the filter selects only these processes.
func (o *explainOptions) filter(ctx context.Context, r *query.Reader, s *query.Session, from, to time.Time) (f query.Filter, within query.Ranges, err error) {
	f = query.Filter{Session: s.ID, From: from, To: to, Labels: o.with}
	if f.PIDs, err = o.of(ctx, r, s.ID); err != nil {
		return f, nil, err
	}
	if within, err = r.Ranges(ctx, s, f); err != nil || within == nil {
		return f, nil, err
	}
	f.PIDs = []uint32{noPID}
	for pid := range within {
		f.PIDs = append(f.PIDs, pid)
	}
	return f, within, nil
}

// analysed returns the time to analyze for a part. With labels, the analysis learns what is normal
// from the time around their ranges, too, and sees whether a cause lies only partly in them.
func (o *explainOptions) analysed(from, to time.Time) (time.Time, time.Time) {
	if len(o.with) > 0 {
		return from.Add(-recent), to.Add(recent)
	}
	return from, to
}

// restricted returns a copy of a tick with only what lies in the ranges of labels: the accounts, as
// sums of the ticks that lie in one range, and the host's sums and state. Threads and functions have
// only sums since the recording began, and are left out.
func (c *collector) restricted(t *tick.Tick) *tick.Tick {
	from, to := t.Time.Add(-t.Window).UnixNano(), t.Time.UnixNano()
	out := *t
	out.Breakdowns, out.Threads, out.Launches = nil, nil, nil
	if c.was == nil {
		c.was, c.known = map[uint32]tick.Breakdown{}, map[uint32]time.Duration{}
	}
	for i := range t.Breakdowns {
		b := &t.Breakdowns[i]
		was := c.was[b.PID]
		c.was[b.PID] = *b
		grown := b.Since(&was)
		if grown.Elapsed == 0 || !c.within.Contains(b.PID, from, to) {
			continue
		}
		if sum, known := c.accounts[b.PID]; known {
			grown = sum.Plus(&grown)
		}
		c.known[b.PID] += t.Window
		out.Breakdowns = append(out.Breakdowns, grown)
	}
	if !c.within.Contains(0, from, to) {
		out.HostSums, out.Host = nil, tick.Host{}
	}
	return &out
}

// lying returns the chains of a window, or of the ranges of labels, with their costs there. partly
// counts those that lie only partly in the ranges, by process.
func (c costs) lying(chains []tick.Chain, within query.Ranges, from, to time.Time) (out []tick.Chain, partly map[uint32]int) {
	partly = map[uint32]int{}
	for _, x := range chains {
		if within == nil {
			out = append(out, c.in(x, from, to))
			continue
		}
		first, last := x.From, x.To
		if y := c[x.ID]; y != nil && y.from.Before(first) {
			first = y.from
		}
		if y := c[x.ID]; y != nil && y.to.After(last) {
			last = y.to
		}
		around, ok := within.Around(x.PID, first.UnixNano(), last.UnixNano())
		switch {
		case ok:
			out = append(out, c.in(x, time.Unix(0, around.From), time.Unix(0, around.To)))
		case within.Overlaps(x.PID, first.UnixNano(), last.UnixNano()):
			partly[x.PID]++
		}
	}
	return out, partly
}

// labelsOf returns what a report about the options' labels needs, nil without labels.
func (o *explainOptions) labelsOf() *explain.Labels {
	if len(o.with) == 0 {
		return nil
	}
	return &explain.Labels{List: o.with}
}
