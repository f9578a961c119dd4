package rollcall

import (
	"slices"
	"time"

	"ingero/internal/tick"
	"ingero/internal/track"
	"ingero/pkg/events"
)

// How long a rank that has ended may be missing: if others have entered a collective that it has
// not; and if none has, since killed ranks do not all die at once.
const (
	endedMissing = 200 * time.Millisecond
	killedAlone  = 500 * time.Millisecond
)

// absence is a missing rank, and since when.
type absence struct {
	m     *member
	since int64
}

// call returns the roll-call of the missing ranks, nil if there are none.
func (g *group) call(now, before int64, threads []tick.Thread) *tick.RollCall {
	if len(g.members) < 2 {
		return nil
	}
	inside := map[*member]*tick.OpenCall{}
	for _, m := range g.members {
		inside[m] = m.inside(threads)
	}
	patience := g.patience()
	var missing []absence
	for _, m := range g.members {
		if m.comm.Inexact || inside[m] != nil {
			continue
		}
		since := g.enteredBy(m, inside)
		if !m.overdue(since, now, before, patience, g.waiting(m)) {
			continue
		}
		if since == 0 {
			since = m.end.Time
		}
		switch {
		case len(missing) == 0 || m.comm.Collectives == missing[0].m.comm.Collectives:
			missing = append(missing, absence{m, since})
		case m.comm.Collectives < missing[0].m.comm.Collectives: // the others wait for it first
			missing = append(missing[:0], absence{m, since})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return g.roll(missing, inside, threads)
}

// overdue reports whether a rank should have entered by now. since is when the first other rank
// entered, 0: none has.
func (m *member) overdue(since, now, before int64, patience time.Duration, othersWait bool) bool {
	switch late := time.Duration(now - since); {
	case since == 0:
		return othersWait && m.end.Time != 0 && (m.end.Signal != 0 || m.end.OOM) && time.Duration(now-m.end.Time) > killedAlone
	case !m.active():
		return othersWait && late > endedMissing
	default:
		return since <= before && late > patience
	}
}

// waiting reports whether a rank other than m is still active.
func (g *group) waiting(m *member) bool {
	return slices.ContainsFunc(g.members, func(o *member) bool { return o != m && o.active() })
}

// enteredBy returns when the first other rank entered the collective that m has not, 0 if none has.
// inside has the ranks' open collectives, which have no record yet.
func (g *group) enteredBy(m *member, inside map[*member]*tick.OpenCall) (since int64) {
	seq := m.comm.Collectives + 1
	for _, o := range g.members {
		if o == m || o.comm.Inexact {
			continue
		}
		at := o.entered(seq).Time
		switch open := inside[o]; {
		case o.comm.Collectives >= seq && at == 0: // the entry is no longer known
			at = o.entered(o.comm.Collectives - o.kept + 1).Time
		case o.comm.Collectives+1 == seq && open != nil:
			at = open.Start
		}
		if at != 0 && (since == 0 || at < since) {
			since = at
		}
	}
	return since
}

// roll builds the roll-call of the missing ranks.
func (g *group) roll(missing []absence, inside map[*member]*tick.OpenCall, threads []tick.Thread) *tick.RollCall {
	first := missing[0].m
	c := &tick.RollCall{Comm: first.comm.ID, Seq: first.comm.Collectives + 1, Since: missing[0].since}
	for _, m := range g.members {
		c.Ranks = max(c.Ranks, m.comm.Ranks)
		open := inside[m]
		switch e := m.entered(c.Seq); {
		case m.comm.Inexact:
			continue
		case e.Time != 0:
			c.Op = e.Op
		case open != nil && m.comm.Collectives+1 == c.Seq:
			c.Op = open.Op
		case m.comm.Collectives < c.Seq:
			continue
		}
		c.Entered = append(c.Entered, m.Rank)
	}
	for _, a := range missing {
		m := tick.Missing{Rank: a.m.Rank, Seq: a.m.comm.Collectives, Last: a.m.comm.Last, State: a.m.comm.State, End: a.m.end}
		if t := a.m.thread(threads); t != nil {
			m.Lives, m.TID, m.Now = true, t.TID, t.Now
			if len(t.Open) > 0 {
				m.Open = t.Open[0]
			}
		}
		c.Missing = append(c.Missing, m)
	}
	return c
}

// thread returns the account of the thread that entered the last collective, nil if it has gone.
func (m *member) thread(threads []tick.Thread) *tick.Thread {
	if m.end.Time != 0 {
		return nil
	}
	for i := range threads {
		if t := &threads[i]; t.PID == m.PID && t.TID == m.comm.Last.TID && !t.Ended {
			return t
		}
	}
	return nil
}

// inside returns the rank's open collective, nil if there is none.
func (m *member) inside(threads []tick.Thread) *tick.OpenCall {
	if m.end.Time != 0 {
		return nil
	}
	for i := range threads {
		t := &threads[i]
		if t.PID != m.PID || t.Ended || len(t.Open) == 0 {
			continue
		}
		o := &t.Open[0]
		c := events.Call{Op: o.Op, Args: o.Args, Tag: o.Tag}
		if handle, ok := c.Value(events.RoleComm); ok && handle == m.comm.Handle && track.Meets(o.Op) {
			return o
		}
	}
	return nil
}
