package fleet

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"ingero/internal/stats"
	"ingero/internal/tick"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// Op sums up an operation's calls on one machine.
type Op struct {
	Node, Comm string
	tick.Op
}

// Ops are the sums of all machines.
type Ops struct {
	Rows     []Op
	From, To time.Time // covered period, by this machine's clock
}

// Ops queries the sums of a window; both zero: the end of each machine's latest recording. Params
// are those of the path /api/v1/ops.
func (f *Fleet) Ops(ctx context.Context, params url.Values, from, to time.Time) (*Ops, []Problem) {
	params.Set("sums", "1")
	answers, problems := Query[wire.Ops](ctx, f, Question{Path: "/api/v1/ops", Params: params, From: from, To: to})
	out := &Ops{}
	of := map[string]string{} // machine by recording
	for i := range answers {
		a := &answers[i]
		rows, err := opsOf(a)
		if err != nil {
			problems = append(problems, f.problem(a.node, a.Name, fmt.Errorf("%w: %w", errAnswer, err)))
			continue
		}
		if n := len(a.Value.Sums) - len(rows); n > 0 {
			f.note("%s counted %d operations unknown to this ingero; update ingero on this machine", a.Name, n)
		}
		out.Rows = append(out.Rows, rows...)
		for _, id := range a.Value.Recordings {
			if other := of[id]; other != "" {
				f.note("%s and %s both have recording %s: its calls are counted twice", other, a.Name, printable(id, 80))
				break
			}
			of[id] = a.Name
		}
		from, to := time.Unix(0, a.Value.FromNS).Add(-f.shift(a.Machine)), time.Unix(0, a.Value.ToNS).Add(-f.shift(a.Machine))
		if out.From.IsZero() || from.Before(out.From) {
			out.From = from
		}
		if to.After(out.To) {
			out.To = to
		}
		for _, n := range a.Value.Notes {
			f.note("%s: %s", a.Name, printable(n, 200))
		}
	}
	return out, problems
}

// opOf finds an operation by name; 0 if there is none. If several share the name, in other layers
// or older forms, opOf prefers the one with source, then the one whose main name it is.
func opOf(name string, source uint8) events.Op {
	first, _ := events.OpByName(name)
	if first == 0 || uint8(first.Source()) == source {
		return first
	}
	for _, o := range events.OpsNamed(name) {
		if uint8(o.Source()) == source {
			return o
		}
	}
	return first
}

func opsOf(a *Answer[wire.Ops]) (out []Op, err error) {
	for i := range a.Value.Sums {
		s := &a.Value.Sums[i]
		op := Op{Node: a.Name, Comm: printable(s.Comm, 16)}
		op.Op.Op = opOf(s.Op, s.Source)
		if op.Op.Op == 0 { // of a later version
			continue
		}
		op.PID, op.Sum, op.Dur = s.PID, s.Counts, &stats.Sketch{}
		if err := op.Dur.UnmarshalBinary(s.Sketch); err != nil {
			return nil, err
		}
		out = append(out, op)
	}
	return out, nil
}
