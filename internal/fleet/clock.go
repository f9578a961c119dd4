package fleet

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"ingero/internal/wire"
)

// Machine is a machine that has answered.
type Machine struct {
	Name    string // its own name; with its address, if another has that name, too
	Address string // as named here
	Version string
	// Ahead is how far its clock is ahead of this machine's, give or take Within; negative: behind.
	Ahead, Within time.Duration

	node *node
}

// A clock is read probesLeast times, and up to probesMost times while it is known less exactly than
// closeEnough and the readings take no longer than probesFor together.
const (
	probesLeast, probesMost = 4, 16
	probesFor               = 250 * time.Millisecond
	closeEnough             = lateByLeast / 2
)

// Meet asks each machine its name and time. Machines that do not answer are problems, and are not
// asked again. Call it before [Query].
func (f *Fleet) Meet(ctx context.Context) []Problem {
	found := make([]*Machine, len(f.nodes))
	failed := make([]*Problem, len(f.nodes))
	var all sync.WaitGroup
	for i, n := range f.nodes {
		all.Go(func() {
			ctx, stop := context.WithTimeout(ctx, f.o.Timeout)
			defer stop()
			m, err := f.meet(ctx, n)
			if err != nil {
				p := f.problem(n, "", err)
				failed[i] = &p
				return
			}
			found[i] = m
		})
	}
	all.Wait()
	var problems []Problem
	f.met = nil
	for i := range found {
		if found[i] != nil {
			f.met = append(f.met, found[i])
		} else {
			problems = append(problems, *failed[i])
		}
	}
	f.disambiguate()
	f.compare()
	return problems
}

// Machines returns the machines that were met.
func (f *Fleet) Machines() []*Machine { return f.met }

func (f *Fleet) meet(ctx context.Context, n *node) (*Machine, error) {
	m := &Machine{Address: n.given, node: n}
	var off bounds
	first := time.Now() // monotonic
	for i := range probesMost {
		if i >= probesLeast && (m.Within <= closeEnough || time.Since(first) > probesFor) {
			break
		}
		var c wire.Clock
		sent := f.o.Now()
		began := time.Now()
		err := f.query(ctx, m, &Question{Path: "/api/v1/time"}, maxAnswer, func(body io.Reader) error { return decode(body, &c) })
		took := time.Since(began)
		if err != nil {
			return nil, err
		}
		if c.TimeNS <= 0 {
			return nil, errAnswer
		}
		off.read(time.Unix(0, c.TimeNS).Sub(sent), took)
		m.Ahead, m.Within = off.middle()
		m.Name, m.Version = cmp.Or(printable(c.Node, 64), n.given), printable(c.Version, 40)
	}
	return m, nil
}

// bounds are bounds of a clock's offset from this machine's.
type bounds struct {
	low, high time.Duration
	known     bool
}

// read adds a reading: the clock's offset when the request was sent, and the time until the answer.
// The clock was read in between, so each reading has bounds, and read intersects them all. If the
// intersection is empty, a clock was set in between, and read discards the earlier readings.
func (b *bounds) read(ahead, took time.Duration) {
	low, high := ahead-took, ahead
	if b.known && max(b.low, low) <= min(b.high, high) {
		low, high = max(b.low, low), min(b.high, high)
	}
	*b = bounds{low: low, high: high, known: true}
}

// middle returns the middle of the bounds, and its maximum error.
func (b *bounds) middle() (ahead, within time.Duration) {
	within = (b.high - b.low + 1) / 2
	return b.high - within, within
}

// disambiguate adds the address to duplicate names.
func (f *Fleet) disambiguate() {
	count := map[string]int{}
	for _, m := range f.met {
		count[m.Name]++
	}
	for _, m := range f.met {
		if count[m.Name] > 1 {
			m.Name += " (" + m.Address + ")"
		}
	}
}

// usual returns the machine with the median clock, this one included: most clocks are near it.
func (f *Fleet) usual() *Machine {
	all := append([]*Machine{{}}, f.met...) // this machine, with offset zero
	slices.SortFunc(all, func(a, b *Machine) int { return cmp.Compare(a.Ahead, b.Ahead) })
	low, high := all[(len(all)-1)/2], all[len(all)/2]
	if low.Ahead.Abs() < high.Ahead.Abs() { // of two medians the nearer one
		return low
	}
	return high
}

// compare notes which clocks are off.
func (f *Fleet) compare() {
	usual := f.usual()
	for _, m := range f.met {
		off, within := m.Ahead-usual.Ahead, m.Within+usual.Within
		switch {
		case off.Abs()-within >= f.o.Skew:
			f.note("the clock of %s is %s %s (±%s): its times are off by as much", m.Name, precise(off.Abs()), side(off)+" the others'", precise(within))
		case m.Within > f.o.Skew:
			f.note("the clock skew of %s is known only within %s: it answers slowly", m.Name, precise(m.Within))
		}
	}
	if usual.Ahead.Abs() >= f.o.Skew {
		f.note("the clock of this machine is %s %s the nodes' clocks", precise(usual.Ahead.Abs()), side(-usual.Ahead))
	}
}

func side(d time.Duration) string {
	if d < 0 {
		return "behind"
	}
	return "ahead of"
}

// precise formats a duration.
func precise(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// shift returns the offset of a machine's window: none if its skew is below the threshold.
func (f *Fleet) shift(m *Machine) time.Duration {
	if m.Ahead.Abs()-m.Within < f.o.Skew {
		return 0
	}
	return m.Ahead
}
