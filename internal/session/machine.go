package session

import (
	"slices"

	"ingero/internal/tape"
	"ingero/internal/tick"
)

// machine is the state of the machine at a tick.
type machine struct {
	Host     tick.Host
	Self     tick.Self
	Overhead tick.Overhead
	Sums     []tick.HostSum
}

// machine returns the state of the machine and the agent at a tick.
func (r *runner) machine(t *tick.Tick) (m machine, err error) {
	fill(r.can.deck, tape.Machine, &m, func() {
		if err := r.meter.Read(&m.Host, &m.Self); err != nil {
			r.Log.Debug("host state unavailable", "error", err)
		}
		m.Sums = slices.Clone(r.meter.Sums())
		if r.can.Shedder != nil {
			m.Overhead, err = r.budget.tick(r.can.Shedder, t, m.Self.CPU)
		}
	})
	return m, err
}
