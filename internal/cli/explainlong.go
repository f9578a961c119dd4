package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// analysed is the maximum number of calls to analyze again for one answer. For more calls,
// the answer is what the same analysis found while recording.
const analysed = 300_000

// long reports whether the answer for a part of a recording comes from rollups.
func (o *explainOptions) long(ctx context.Context, r *query.Reader, f query.Filter) (bool, error) {
	if o.stored || o.anew || o.last > 0 {
		return o.stored, nil
	}
	f.From, f.To = o.analysed(f.From, f.To)
	n, known, err := r.Called(ctx, f)
	return known && n > analysed, err
}

// stored adds what was found while recording: the chains, with their cost in the window, and
// where the time went.
func stored(ctx context.Context, r *query.Reader, s *query.Summary, f query.Filter, in *explain.Input) error {
	chains, partly, err := chainsIn(ctx, r, s, f)
	if err != nil {
		return err
	}
	in.Chains = append(in.Chains, chains...)
	accounts, err := r.Accounts(ctx, f)
	if err != nil {
		return err
	}
	for i := range accounts {
		in.Breakdowns = append(in.Breakdowns, accounts[i].Breakdown)
		if in.Labels != nil {
			in.Labels.Known[accounts[i].PID] += accounts[i].Covered
		}
	}
	in.Labels.AddPartly(partly)
	if err := addServing(ctx, r, f, in, accounts); err != nil {
		return err
	}
	in.Host, err = hostIn(ctx, r, f)
	return err
}

// addServing notes the processes that answered requests in the window, or shortly before an unfinished step: a
// server that is idle has one.
func addServing(ctx context.Context, r *query.Reader, f query.Filter, in *explain.Input, accounts []query.Account) error {
	for i := range accounts {
		if x := accounts[i].Open; x != nil && !f.From.IsZero() && x.From.Before(f.From.Add(time.Minute)) {
			f.From = x.From.Add(-time.Minute)
		}
	}
	serving, err := r.Serving(ctx, f)
	if in.Serving == nil {
		in.Serving = map[uint32]bool{}
	}
	maps.Copy(in.Serving, serving)
	return err
}

// openSteps adds the unfinished steps, as recorded, of processes that finished no step in the window: an analysis
// of the window cannot know that they ever did.
func openSteps(ctx context.Context, r *query.Reader, f query.Filter, in *explain.Input) error {
	silent := func(b tick.Breakdown) bool { return b.Loop == nil && b.Open == nil }
	if !slices.ContainsFunc(in.Breakdowns, silent) {
		return nil
	}
	accounts, err := r.Accounts(ctx, f)
	if err != nil {
		return err
	}
	for i := range accounts {
		a := &accounts[i]
		for k := range in.Breakdowns {
			if b := &in.Breakdowns[k]; b.PID == a.PID && silent(*b) {
				b.Open = a.Open
			}
		}
	}
	return addServing(ctx, r, f, in, accounts)
}

// chainsIn returns the chains of a window. A chain's cost covers the whole window if the
// chain lasted longer than the time that it is judged by. A chain that can lose no time, as a
// memory leak, is included if it overlaps the window. partly counts those that lie only partly
// in the ranges of the filter's labels.
func chainsIn(ctx context.Context, r *query.Reader, s *query.Summary, f query.Filter) (chains []tick.Chain, partly map[uint32]int, err error) {
	chains, err = r.Chains(ctx, f)
	if err != nil || len(chains) == 0 {
		return nil, nil, err
	}
	losses, err := r.Losses(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	within, err := r.Ranges(ctx, &s.Session, f)
	if err != nil {
		return nil, nil, err
	}
	by := costs{}
	for i := range losses {
		l := &losses[i]
		by.add(l.Chain, l.Lost, l.From, l.To)
	}
	chains = slices.DeleteFunc(chains, func(c tick.Chain) bool { return by[c.ID] == nil && c.Lost > 0 && len(losses) > 0 })
	chains, partly = by.lying(chains, within, s.From, s.To)
	return chains, partly, nil
}

// costs maps a chain's ID to its cost over all of its episodes, not only the last minute.
type costs map[string]*cost

type cost struct {
	lost     time.Duration
	from, to time.Time
}

func (c costs) add(chain string, lost time.Duration, from, to time.Time) {
	x := c[chain]
	if x == nil {
		x = &cost{from: from}
		c[chain] = x
	}
	x.lost, x.to = x.lost+lost, to
}

// in returns the chain with its cost in the whole window, if its last state covers less or
// more than the window.
func (c costs) in(x tick.Chain, from, to time.Time) tick.Chain {
	y := c[x.ID]
	if y == nil || x.Lost <= 0 || !x.From.Before(from) && !x.To.After(to) && y.lost <= x.Lost+x.Lost/20 {
		return x
	}
	return allOf(x, y.lost, y.from, y.to, to.Sub(from))
}

// allOf returns the chain with its cost over a longer time than that of its last state. It
// clears the values that only that state has.
func allOf(c tick.Chain, lost time.Duration, from, to time.Time, window time.Duration) tick.Chain {
	times := float64(lost) / float64(c.Lost)
	scaled := func(d time.Duration) time.Duration { return time.Duration(times * float64(d)) }
	c.Lost, c.LostMin, c.LostMax = lost, scaled(c.LostMin), scaled(c.LostMax)
	for i := range c.Culprits {
		c.Culprits[i].Lost = scaled(c.Culprits[i].Lost)
	}
	c.Window, c.Steps, c.Slow, c.Excess = window, 0, 0, 0
	if from.Before(c.From) {
		c.From = from
	}
	if to.After(c.To) {
		c.To = to
	}
	return c
}

// hostIn returns the machine's state over a window, with the average CPU share; nil if unknown.
func hostIn(ctx context.Context, r *query.Reader, f query.Filter) (*tick.Host, error) {
	all, err := r.Snapshots(ctx, f)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	host := all[len(all)-1].Host
	host.CPU = 0
	for i := range all {
		host.CPU += all[i].Host.CPU / float64(len(all))
	}
	return &host, nil
}

// longRemark says that the causes of a long part were found while recording.
func longRemark(sums []*query.Summary, long map[string]bool) string {
	var calls uint64
	for _, s := range sums {
		if !long[s.Session.ID] {
			continue
		}
		for i := range s.Ops {
			calls += s.Ops[i].Sum.Calls
		}
	}
	return fmt.Sprintf("the causes of these %s calls were found during recording; --anew re-analyzes every call, which takes longer", explain.Count(calls))
}
