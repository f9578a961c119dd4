package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// sumChecker is a sink that compares each tick's chains with the recorded ones. It skips ticks
// that were not recorded: those at the end of a truncated recording.
type sumChecker struct {
	collector // of the recorded ticks

	mu   sync.Mutex
	sums map[uint64]tickResult // by tick number; those not yet compared
	out  wire.ReplayCheck
	old  int // number of ticks without a recorded sum
}

type tickResult struct {
	chains uint64
	known  bool
}

// recorded stores the recorded sum of a tick.
func (c *sumChecker) recorded(t *tick.Tick, chains uint64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sums[t.Seq] = tickResult{chains, known}
}

// Tick implements [tick.Sink].
func (c *sumChecker) Tick(t *tick.Tick) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	want, recorded := c.sums[t.Seq]
	if !recorded {
		return nil
	}
	delete(c.sums, t.Seq)
	if err := c.collector.Tick(t); err != nil {
		return err
	}
	if !want.known {
		c.old++
		return nil
	}
	got, err := store.ChainSum(t.AllChains())
	if err != nil {
		return err
	}
	c.out.Ticks++
	if got != want.chains {
		if c.out.Differ++; c.out.Differ == 1 {
			c.out.First = t.Time
		}
	}
	return nil
}

// replayCheck replays a recording and compares the results with the recorded ones.
func (e *Env) replayCheck(ctx context.Context, p *player, r *query.Reader, s *query.Session, asJSON bool) error {
	if s.Cut {
		return &problem{What: "the first calls of this recording were removed to free space, so replay cannot reproduce its causes",
			Do: "to play the remaining calls: ingero replay"}
	}
	c := &sumChecker{sums: map[uint64]tickResult{}, out: wire.ReplayCheck{Recorded: s.Version, Chain: []wire.ChainDifference{}}}
	if err := p.run(ctx, c.recorded, c); err != nil {
		return err
	}
	stored, err := r.Chains(ctx, query.Filter{Session: s.ID})
	if err != nil {
		return err
	}
	in, out := &explain.Input{}, &c.out
	c.ledger(in, nil)
	out.Chains = len(in.Chains)
	if out.Differ > 0 || out.Ticks == 0 && c.old > 0 || s.State == "ended" { // else the stored states may be those of the tick before
		if out.Chain, err = diffChains(stored, in.Chains); err != nil {
			return err
		}
	}
	out.Same = out.Differ == 0 && len(out.Chain) == 0
	if asJSON {
		err = e.json(out)
	} else {
		err = e.printf("%s", replayText(out, p.zone))
	}
	if err == nil && !out.Same {
		return exitCode(exitDiffers)
	}
	return err
}

// replayText formats the result for people.
func replayText(c *wire.ReplayCheck, zone *time.Location) string {
	var b strings.Builder
	what := "the last state of each cause"
	if c.Ticks > 0 {
		what = counted(c.Ticks, "tick")
	}
	if c.Same {
		return fmt.Sprintf("The same: %s, %s.\n", what, counted(c.Chains, "cause"))
	}
	fmt.Fprintf(&b, "Not the same: ")
	if c.Differ > 0 {
		fmt.Fprintf(&b, "%d of %s differ, the first at %s.", c.Differ, what, c.First.In(zone).Format("15:04:05.000"))
	} else {
		fmt.Fprintf(&b, "the last states of %s differ.", counted(len(c.Chain), "cause"))
	}
	fmt.Fprintf(&b, "\nRecorded by ingero %s.\n", c.Recorded)
	for _, d := range c.Chain {
		fmt.Fprintf(&b, "\n%s\n", oneLine(d.ID))
		for _, line := range d.Recorded {
			fmt.Fprintf(&b, "  - %s\n", oneLine(line))
		}
		for _, line := range d.Replayed {
			fmt.Fprintf(&b, "  + %s\n", oneLine(line))
		}
	}
	return b.String()
}

// diffChains returns the differences between the last states of chains. It ignores the place in
// the program and the spread over time, which are not stored.
func diffChains(recorded, replayed []tick.Chain) ([]wire.ChainDifference, error) {
	var errs []error
	lines := map[string]*[2][]string{}
	for side, chains := range [][]tick.Chain{recorded, replayed} {
		for i := range chains {
			text, err := chainLines(&chains[i])
			errs = append(errs, err)
			x := lines[chains[i].ID]
			if x == nil {
				x = &[2][]string{}
				lines[chains[i].ID] = x
			}
			x[side] = text
		}
	}
	out := []wire.ChainDifference{}
	for id, x := range lines {
		if slices.Equal(x[0], x[1]) {
			continue
		}
		lack := func(of, in []string) []string {
			return slices.DeleteFunc(slices.Clone(of), func(line string) bool { return slices.Contains(in, line) })
		}
		out = append(out, wire.ChainDifference{ID: id, Recorded: lack(x[0], x[1]), Replayed: lack(x[1], x[0])})
	}
	slices.SortFunc(out, func(a, b wire.ChainDifference) int { return strings.Compare(a.ID, b.ID) })
	return out, errors.Join(errs...)
}

// chainLines returns the stored values of a chain as lines.
func chainLines(c *tick.Chain) ([]string, error) {
	x := *c
	x.At, x.Stack, x.Spread, x.Replaced = "", 0, nil, time.Time{}
	x.From, x.To = x.From.UTC(), x.To.UTC()
	if x.Confidence != x.Confidence { // NaN: unknown
		x.Confidence = 0
	}
	x.Culprits = append([]tick.Culprit{}, x.Culprits...)
	for i := range x.Culprits {
		x.Culprits[i].Stack = 0
	}
	x.NotIt = append([]string{}, x.NotIt...)
	x.Timeline = append([]tick.Moment{}, x.Timeline...)
	for i := range x.Timeline {
		x.Timeline[i].Time = x.Timeline[i].Time.UTC()
	}
	b, err := json.MarshalIndent(&x, "", "")
	return strings.Split(string(b), "\n"), err
}
