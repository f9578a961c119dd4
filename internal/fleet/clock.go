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

// Machine is one that has answered.
type Machine struct {
	Name    string // as it calls itself; with its address, where another has that name, too
	Address string // as it was named here
	Version string
	// Ahead is how far its clock is ahead of that of this machine, give or take Within;
	// negative: behind.
	Ahead, Within time.Duration

	node *node
}

// A clock is read probesLeast times, and up to probesMost times while it is not known to
// within closeEnough and they take no longer than probesFor together.
const (
	probesLeast, probesMost = 4, 16
	probesFor               = 250 * time.Millisecond
	closeEnough             = lateByLeast / 2
)

// Meet asks each machine who it is and what time it has. Machines that do not answer are
// problems, and are not asked again. It must come before [Ask].
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
	f.tellApart()
	f.compare()
	return problems
}

// Machines are those that were met.
func (f *Fleet) Machines() []*Machine { return f.met }

func (f *Fleet) meet(ctx context.Context, n *node) (*Machine, error) {
	m := &Machine{Address: n.given, node: n}
	var off bounds
	first := time.Now() // by the clock that nobody sets
	for i := range probesMost {
		if i >= probesLeast && (m.Within <= closeEnough || time.Since(first) > probesFor) {
			break
		}
		var c wire.Clock
		sent := f.o.Now()
		began := time.Now()
		err := f.ask(ctx, m, &Question{Path: "/api/v1/time"}, maxAnswer, func(body io.Reader) error { return decode(body, &c) })
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

// bounds are those of how far a clock is ahead of this machine's.
type bounds struct {
	low, high time.Duration
	known     bool
}

// read takes one reading more: when it was asked for, the clock was ahead of this machine's by
// as much, and the answer was there some time later. The clock was read between the two, so each
// reading has bounds, and what lies within those of all is left. Where nothing does, somebody
// has set a clock in between, and the earlier ones tell nothing.
func (b *bounds) read(ahead, took time.Duration) {
	low, high := ahead-took, ahead
	if b.known && max(b.low, low) <= min(b.high, high) {
		low, high = max(b.low, low), min(b.high, high)
	}
	*b = bounds{low: low, high: high, known: true}
}

// middle is what is nearest to all that is within the bounds, and how far off that may be.
func (b *bounds) middle() (ahead, within time.Duration) {
	within = (b.high - b.low + 1) / 2
	return b.high - within, within
}

// tellApart adds the address to names that are there twice.
func (f *Fleet) tellApart() {
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

// usual is the machine whose clock is in the middle of all, this one's among them: so are
// the clocks of most.
func (f *Fleet) usual() *Machine {
	all := append([]*Machine{{}}, f.met...) // this one, ahead of itself by nothing
	slices.SortFunc(all, func(a, b *Machine) int { return cmp.Compare(a.Ahead, b.Ahead) })
	low, high := all[(len(all)-1)/2], all[len(all)/2]
	if low.Ahead.Abs() < high.Ahead.Abs() { // of two in the middle the one that is nearer to here
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
			f.note("the clock of %s is %s %s, give or take %s: its times are off by as much", m.Name, precise(off.Abs()), side(off)+" the others'", precise(within))
		case m.Within > f.o.Skew:
			f.note("how the clock of %s stands cannot be told more closely than %s: it answers slowly", m.Name, precise(m.Within))
		}
	}
	if usual.Ahead.Abs() >= f.o.Skew {
		f.note("the clock of this machine is %s %s those of the machines", precise(usual.Ahead.Abs()), side(-usual.Ahead))
	}
}

func side(d time.Duration) string {
	if d < 0 {
		return "behind"
	}
	return "ahead of"
}

// precise is a duration as it is told.
func precise(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// shift is by how much a window is moved for a machine: not at all where its clock is as
// far off as may be.
func (f *Fleet) shift(m *Machine) time.Duration {
	if m.Ahead.Abs()-m.Within < f.o.Skew {
		return 0
	}
	return m.Ahead
}
