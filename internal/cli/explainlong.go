package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// analysed is how many calls are analysed anew for one answer. Of more it is told what
// the same analysis found while they were recorded.
const analysed = 300_000

// long says whether a part of a recording is told from what was summed up.
func (o *explainOptions) long(ctx context.Context, r *query.Reader, f query.Filter) (bool, error) {
	if o.stored || o.anew || o.last > 0 {
		return o.stored, nil
	}
	n, known, err := r.Called(ctx, f)
	return known && n > analysed, err
}

// stored adds what was found while it was recorded: the chains, with what each cost in
// the window, and where the time went.
func stored(ctx context.Context, r *query.Reader, s *query.Summary, f query.Filter, in *explain.Input) error {
	chains, err := chainsIn(ctx, r, s, f)
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
	}
	in.Host, err = hostIn(ctx, r, f)
	return err
}

// chainsIn returns the chains of a window. What one cost in all of the window is told
// where it went on for longer than it is judged by.
func chainsIn(ctx context.Context, r *query.Reader, s *query.Summary, f query.Filter) ([]tick.Chain, error) {
	chains, err := r.Chains(ctx, f)
	if err != nil || len(chains) == 0 {
		return nil, err
	}
	losses, err := r.Losses(ctx, f)
	if err != nil {
		return nil, err
	}
	type loss struct {
		lost     time.Duration
		from, to time.Time
	}
	by := map[string]*loss{}
	for i := range losses {
		l := &losses[i]
		x := by[l.Chain]
		if x == nil {
			x = &loss{from: l.From}
			by[l.Chain] = x
		}
		x.lost, x.to = x.lost+l.Lost, l.To
	}
	for i := range chains {
		c := &chains[i]
		if x := by[c.ID]; x != nil && c.Lost > 0 && (c.From.Before(s.From) || c.To.After(s.To) || x.lost > c.Lost+c.Lost/20) {
			*c = allOf(*c, x.lost, x.from, x.to, s.To.Sub(s.From))
		}
	}
	return slices.DeleteFunc(chains, func(c tick.Chain) bool { return by[c.ID] == nil && len(losses) > 0 }), nil
}

// allOf is a chain with what it cost over a longer time than that of its last state.
// What only that state knows is left out.
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

// hostIn is the machine's state over a window, nil where it is not known.
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

// longRemark says how it is known what is told of a long part.
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
	return fmt.Sprintf("of these %s calls it tells what was found while they were recorded; --anew analyses each of them again, which takes longer", explain.Count(calls))
}
