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
	back     = 16  // a name that comes back has at least this many ranges
)

// named has the ranges of one name, ignoring numbers in it.
type named struct {
	found
	show  string
	first int64  // Unix ns: start of the first since it came back
	open  int    // not ended
	in    *named // range around the last one, nil: none
	turns uint64
	waits uint64 // ranges that waited for the GPU
	steps bool   // its ranges have been the steps

	// A name comes back with a range that follows a time in which it no longer covered enough.
	earlier struct {
		total time.Duration
		steps uint64
	} // before it came back

	// At the start of the thread's current phase.
	before  time.Duration // total
	counted uint64        // ranges
}

// recurs reports whether there are enough ranges since the name came back.
func (n *named) recurs() bool {
	least := uint64(leastSteps)
	if n.earlier.steps > 0 {
		least = back
	}
	return n.lengths.Count()-n.earlier.steps >= least
}

// covers reports whether the ranges cover enough of the time since the name came back.
func (n *named) covers(now int64) bool {
	return float64(n.total-n.earlier.total) >= covering*float64(now-n.first)
}

// resume notes that the name comes back at a time.
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
	n.id = f.ids.next()
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

// sums has the ranges of one name in a time: all, or the current phase.
type sums struct {
	*named
	total time.Duration
	count uint64
}

// main returns the name whose ranges are the steps of the thread, or nil.
func (m *marked) main() *named { return m.stepsSince(0) }

// stepsSince returns the name whose ranges are the steps since the current phase began (Unix ns), or,
// with 0, of all time; nil if there is none.
func (m *marked) stepsSince(phase int64) *named {
	var list []sums
	for _, n := range m.names {
		x := sums{n, n.total, n.lengths.Count()}
		steps := n.recurs() && n.covers(m.newest)
		if phase != 0 {
			x.total, x.count = x.total-n.before, x.count-n.counted
			steps = x.count >= leastSteps && float64(x.total) >= covering*float64(m.newest-max(n.first, phase))
		}
		if steps {
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b sums) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.count, b.count), cmp.Compare(a.show, b.show))
	})
	var best *sums
	for i := range list {
		if n := &list[i]; best == nil || n.within(best, list[0].total) && n.isStep() || best.partOf(n) {
			best = n
		}
	}
	if best == nil {
		return nil
	}
	return best.named
}

// within reports whether these ranges are the steps of an epoch with about the same coverage.
func (n *sums) within(e *sums, most time.Duration) bool {
	return float64(n.total) >= asMuch*float64(most) && n.count >= epoch*e.count
}

// partOf reports whether these ranges are inside those of a step. The step may have less time: the
// beginning of the first one was not seen.
func (n *sums) partOf(step *sums) bool {
	out := n.in
	for depth := 0; out != step.named && out != nil && depth < mostOpen; depth++ {
		out = out.in
	}
	return out == step.named && float64(step.total) >= asMuch*float64(n.total) && n.count < epoch*step.count
}

// isStep reports whether these ranges wait for the GPU, as steps do.
func (n *named) isStep() bool { return float64(n.waits) >= waiting*float64(n.lengths.Count()) }

// follow notes the phase of a program: the time since the last tick with ranges of its main name. It
// returns the name whose ranges are the steps of the phase, if another one's are.
func (m *marked) follow(most *named) *named {
	most.steps = true
	if len(most.recent) == 0 && most.open == 0 {
		m.phase = cmp.Or(m.phase, m.ticked)
		n := m.stepsSince(m.phase)
		if n != nil {
			n.steps = true
		}
		return n
	}
	m.phase, m.ticked = 0, m.newest
	for _, n := range m.names {
		n.before, n.counted = n.total, n.lengths.Count()
	}
	return nil
}

// toTick converts the steps to a tick's form. The others are the ranges that are, or have been, the steps
// of a phase.
func (m *marked) toTick() *tick.Loop {
	most := m.main()
	now := m.follow(most)
	out := most.toTick(m.tid)
	for _, n := range m.names {
		if n == most || !n.steps {
			continue
		}
		if n.changed() {
			n.last = n.toTick(m.tid)
		}
		out.Others = append(out.Others, n.last)
		if n == now && n.replaces(&most.found) {
			out.Now = n.last
		}
	}
	byID(out.Others)
	return out
}

// toTick converts the loop to a tick's form.
func (n *named) toTick(tid uint32) *tick.Loop {
	out := n.found.toTick(tid)
	out.Range = strings.ToValidUTF8(n.show, "?")
	out.Waits = int((n.turns + n.lengths.Count()/2) / n.lengths.Count())
	return out
}
