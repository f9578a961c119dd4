package dashboard

import (
	"cmp"

	"ingero/internal/wire"
)

// fleet queries the configured machines.
func (a *request) fleet() (any, error) {
	if length := cmp.Or(a.q.Since, a.q.Window); a.q.From.IsZero() || a.q.Since > 0 { // by the wall clock: other machines' recordings have other clocks
		a.q.To = a.Now()
		a.q.From = a.q.To.Add(-length)
	}
	out := wire.Machines{Scope: a.about(), Machines: []wire.Machine{}, Notes: []string{}}
	if a.Fleet == nil {
		return out, nil
	}
	machines, notes, err := a.Fleet(a.ctx, a.q.From, a.q.To)
	out.Machines, out.Notes = append(out.Machines, machines...), append(out.Notes, notes...)
	return out, err
}
