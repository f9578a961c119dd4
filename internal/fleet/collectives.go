package fleet

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"slices"
	"time"

	"ingero/internal/wire"
)

// Group is an NCCL communicator, with the combined data of its ranks on all machines.
type Group struct {
	Comm    string
	Ranks   uint32 // total number; 0: unknown
	Members []Member
	// Unseen are ranks that no machine has reported; nil if the number of ranks is unknown.
	Unseen  []int32
	Absent  []Absent    // ranks that have not entered a collective that others have; empty: none
	Late    []Straggler // ranks that others waited for, most first
	Compare int         // collectives with a known entry of each member
}

// Member is a rank on a machine.
type Member struct {
	Node string
	wire.Rank

	within time.Duration // accuracy of the machine's clock
}

// Absent is a member that has not entered a collective.
type Absent struct {
	*Member
	Seq     uint64        // the first that it has not entered
	Op      string        // "": unknown
	Since   time.Time     // first entry of another member, by this machine's clock
	For     time.Duration // from Since until the last of Entered ended, or the member was last seen
	Entered []*Member     // members that have entered it
}

// Straggler is a member that was the last to enter some collectives.
type Straggler struct {
	*Member
	Times  int           // by more than the clock skew
	Waited time.Duration // total wait of the last but one
	Within time.Duration // its accuracy
}

// Times from which a rank is reported as late.
const (
	absentLeast = time.Second
	lateByLeast = 200 * time.Microsecond
)

// Collectives queries which collectives ranks entered in a window, and compares the ranks of each
// communicator. It corrects times by the clock skew.
func (f *Fleet) Collectives(ctx context.Context, params url.Values, from, to time.Time) ([]Group, []Problem) {
	answers, problems := Query[wire.Collectives](ctx, f, Question{Path: "/api/v1/collectives", Params: params, From: from, To: to})
	members := map[string][]Member{}
	for i := range answers {
		a := &answers[i]
		for _, r := range a.Value.Ranks {
			r.Comm, r.Name, r.State = printable(r.Comm, 16), printable(r.Name, 16), printable(r.State, 16)
			ahead := int64(a.Ahead)
			r.SeenNS -= ahead
			if r.EndedNS != 0 {
				r.EndedNS -= ahead
			}
			for j := range r.Entries {
				r.Entries[j].TimeNS -= ahead
				r.Entries[j].Op = printable(r.Entries[j].Op, 40)
			}
			members[r.Comm] = append(members[r.Comm], Member{Node: a.Name, Rank: r, within: a.Within})
		}
	}
	var out []Group
	for comm, all := range members {
		out = append(out, groupOf(comm, all))
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(b.Absent), len(a.Absent)), cmp.Compare(lost(b.Late), lost(a.Late)), cmp.Compare(a.Comm, b.Comm))
	})
	return out, problems
}

func lost(l []Straggler) (sum time.Duration) {
	for i := range l {
		sum += l[i].Waited
	}
	return sum
}

// groupOf compares a communicator's ranks.
func groupOf(comm string, all []Member) Group {
	slices.SortStableFunc(all, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Rank.Rank, b.Rank.Rank), cmp.Compare(a.Node, b.Node), cmp.Compare(a.PID, b.PID), cmp.Compare(b.SeenNS, a.SeenNS))
	})
	all = slices.CompactFunc(all, func(a, b Member) bool { return a.Rank.Rank == b.Rank.Rank && a.Node == b.Node && a.PID == b.PID })
	g := Group{Comm: comm, Members: all}
	seen := map[int32]bool{}
	for i := range all {
		g.Ranks = max(g.Ranks, all[i].Ranks)
		seen[all[i].Rank.Rank] = true
	}
	const most = 1 << 16 // ranks
	for r := range int32(min(g.Ranks, most)) {
		if !seen[r] {
			g.Unseen = append(g.Unseen, r)
		}
	}
	g.Absent = absent(g.Members)
	g.Late, g.Compare = stragglers(g.Members)
	return g
}

// absent takes the roll-call: which members have not entered what others entered long ago.
func absent(all []Member) (out []Absent) {
	for i := range all {
		m := &all[i]
		a := Absent{Member: m, Seq: m.Done + 1}
		if m.State != "active" {
			continue
		}
		var since, until int64 // until: when the last of those that entered ended
		for j := range all {
			o := &all[j]
			if o.Done < a.Seq || i == j {
				continue
			}
			a.Entered = append(a.Entered, o)
			until = max(until, cmp.Or(o.EndedNS, math.MaxInt64))
			if e := o.entered(a.Seq); e != nil && (since == 0 || e.TimeNS < since) {
				since, a.Op = e.TimeNS, e.Op
			}
		}
		if since == 0 {
			continue
		}
		a.Since, a.For = time.Unix(0, since), time.Duration(min(m.SeenNS, until)-since)
		switch {
		case a.For-m.within < absentLeast:
		case len(out) == 0 || a.Seq == out[0].Seq:
			out = append(out, a)
		case a.Seq < out[0].Seq: // the others wait for it first
			out = append(out[:0], a)
		}
	}
	return out
}

// entered returns a member's entry into a collective or, if that is unknown, its first known later
// entry; nil: none.
func (m *Member) entered(seq uint64) *wire.Entry {
	i, _ := slices.BinarySearchFunc(m.Entries, seq, func(e wire.Entry, seq uint64) int { return cmp.Compare(e.Seq, seq) })
	if i == len(m.Entries) {
		return nil
	}
	return &m.Entries[i]
}

// stragglers returns the late ranks: for each collective that all members have entered, the last
// member, and how long the last but one had waited by then.
func stragglers(all []Member) (out []Straggler, compared int) {
	if len(all) < 2 {
		return nil, 0
	}
	by := make([]Straggler, len(all))
	for _, first := range all[0].Entries {
		last, second := -1, -1 // indexes of members
		times := make([]int64, len(all))
		known := true
		for i := range all {
			e := all[i].entered(first.Seq)
			if known = e != nil && e.Seq == first.Seq; !known {
				break
			}
			times[i] = e.TimeNS
			switch {
			case last < 0 || e.TimeNS > times[last]:
				last, second = i, last
			case second < 0 || e.TimeNS > times[second]:
				second = i
			}
		}
		if !known {
			continue
		}
		compared++
		waited, within := time.Duration(times[last]-times[second]), all[last].within+all[second].within
		if all[last].Node == all[second].Node { // same clock
			within = 0
		}
		if waited > within+lateByLeast {
			x := &by[last]
			x.Member, x.Times, x.Waited, x.Within = &all[last], x.Times+1, x.Waited+waited, x.Within+within
		}
	}
	for i := range by {
		if by[i].Times > 0 {
			out = append(out, by[i])
		}
	}
	slices.SortStableFunc(out, func(a, b Straggler) int { return cmp.Compare(b.Waited, a.Waited) })
	return out, compared
}
