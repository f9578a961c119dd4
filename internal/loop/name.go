package loop

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingero/internal/tick"
)

const (
	mostNames = 32   // per thread
	allNames  = 1024 // of all threads

	covering = 0.5 // share of the time that ranges of steps must cover
	asMuch   = 0.7 // of the best coverage: an equal candidate
	waiting  = 0.7 // share of the steps that must wait for the GPU
	epoch    = 16  // an epoch contains at least this many steps
	phase    = 16  // and so does a later phase of a name
)

// named has the ranges of one name, ignoring numbers in it.
type named struct {
	found
	show  string
	first int64  // Unix ns: start of the first of the phase
	open  int    // not ended
	in    *named // range around the last one, nil: none
	turns uint64
	waits uint64 // ranges that waited for the GPU

	// A phase begins with a range that follows a time in which the name no longer covered enough.
	earlier struct {
		total time.Duration
		steps uint64
	} // before the phase
}

// recurs reports whether the phase has enough ranges.
func (n *named) recurs() bool {
	least := uint64(leastSteps)
	if n.earlier.steps > 0 {
		least = phase
	}
	return n.lengths.Count()-n.earlier.steps >= least
}

// covers reports whether the ranges of the phase cover enough of its time.
func (n *named) covers(now int64) bool {
	return float64(n.total-n.earlier.total) >= covering*float64(now-n.first)
}

// resume begins a phase at a time.
func (n *named) resume(now int64) {
	n.first, n.earlier.total, n.earlier.steps = now, n.total, n.lengths.Count()
}

// nameOf returns the ranges of a name, or nil if the name is unknown or the table is full.
func (f *Finder) nameOf(m *marked, r *tick.Range) *named {
	var buf [tick.MaxRangeName + 1]byte
	key := fold(buf[:0], r)
	if len(key) == 0 {
		return nil
	}
	raw := r.Name[:r.Length]
	if n := m.names[string(key)]; n != nil {
		if len(raw) > 0 && n.show != string(raw) {
			n.show = string(key)
		}
		return n
	}
	if len(m.names) >= mostNames || f.names >= allNames {
		if !m.makeRoom() {
			return nil
		}
		f.names--
	}
	n := &named{show: string(key)}
	if len(raw) > 0 {
		n.show = string(raw)
	}
	m.names[string(key)] = n
	f.names++
	return n
}

// makeRoom drops the name with the least time.
func (m *marked) makeRoom() bool {
	least, at := (*named)(nil), ""
	for key, n := range m.names {
		if n.open == 0 && (least == nil || cmp.Or(cmp.Compare(n.total, least.total), cmp.Compare(n.first, least.first), cmp.Compare(key, at)) < 0) {
			least, at = n, key
		}
	}
	delete(m.names, at)
	return least != nil
}

// fold appends a name without its numbers, because many programs count their steps in it: "step 17"
// is "step #". An unknown name is identified by its address.
func fold(to []byte, r *tick.Range) []byte {
	if r.Length == 0 {
		if r.ID == 0 {
			return to
		}
		return strconv.AppendUint(append(to, "(unread, at 0x"...), r.ID, 16)
	}
	digits := false
	for _, c := range r.Name[:r.Length] {
		is := c >= '0' && c <= '9'
		switch {
		case !is:
			to = append(to, c)
		case !digits:
			to = append(to, '#')
		}
		digits = is
	}
	return to
}

// main returns the name whose ranges are the steps of the thread, or nil.
func (m *marked) main() (best *named) {
	var list []*named
	for _, n := range m.names {
		if n.recurs() && n.covers(m.newest) {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b *named) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.lengths.Count(), b.lengths.Count()), cmp.Compare(a.show, b.show))
	})
	for _, n := range list {
		if best == nil || n.within(best, list[0].total) && n.steps() || best.partOf(n) {
			best = n
		}
	}
	return best
}

// within reports whether these ranges are the steps of an epoch with about the same coverage.
func (n *named) within(e *named, most time.Duration) bool {
	return float64(n.total) >= asMuch*float64(most) && n.lengths.Count() >= epoch*e.lengths.Count()
}

// partOf reports whether these ranges are inside those of a step. The step may have less time: the
// beginning of the first one was not seen.
func (n *named) partOf(step *named) bool {
	out := n.in
	for depth := 0; out != step && out != nil && depth < mostOpen; depth++ {
		out = out.in
	}
	return out == step && float64(step.total) >= asMuch*float64(n.total) && n.lengths.Count() < epoch*step.lengths.Count()
}

// steps reports whether these ranges wait for the GPU, as steps do.
func (n *named) steps() bool { return float64(n.waits) >= waiting*float64(n.lengths.Count()) }

// toTick converts the loop to a tick's form.
func (n *named) toTick(tid uint32) *tick.Loop {
	out := n.found.toTick(tid)
	out.Range = strings.ToValidUTF8(n.show, "?")
	out.Waits = int((n.turns + n.lengths.Count()/2) / n.lengths.Count())
	return out
}
