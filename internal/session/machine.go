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

// machine fills what a tick says of the machine and of the agent.
func (r *runner) machine(t *tick.Tick) (err error) {
	var m machine
	ask(r.can.deck, tape.Machine, &m, func() {
		if err := r.meter.Read(&t.Host, &t.Self); err != nil {
			r.Log.Debug("host state unavailable", "error", err)
		}
		m.Sums = slices.Clone(r.meter.Sums())
		if r.can.Sparing != nil {
			err = r.budget.tick(r.can.Sparing, t)
		}
		m.Host, m.Self, m.Overhead = t.Host, t.Self, t.Overhead
	})
	t.Host, t.Self, t.Overhead = m.Host, m.Self, m.Overhead
	t.HostSums = append(t.HostSums, m.Sums...)
	return err
}

// functions has the names of GPU functions found, or takes those of a tape.
func (r *runner) functions(b *tick.Batch, find func(*tick.Batch)) {
	if r.can.deck != nil && r.can.deck.plays() {
		r.can.deck.answer(tape.Functions, &b.Functions, nil)
		r.names.Batch(b) // also where what remained was waited for
		return
	}
	find(b)
	if r.can.deck != nil {
		r.can.deck.answer(tape.Functions, &b.Functions, func() {})
	}
}
