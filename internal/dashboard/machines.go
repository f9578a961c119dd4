package dashboard

import "ingero/internal/wire"

// fleet queries the configured machines.
func (a *request) fleet() (any, error) {
	if a.q.From.IsZero() {
		a.q.To = a.Now()
		a.q.From = a.q.To.Add(-a.q.Window)
	}
	out := wire.Machines{Scope: a.about(), Machines: []wire.Machine{}, Notes: []string{}}
	if a.Fleet == nil {
		return out, nil
	}
	machines, notes, err := a.Fleet(a.ctx, a.q.From, a.q.To)
	out.Machines, out.Notes = append(out.Machines, machines...), append(out.Notes, notes...)
	return out, err
}
