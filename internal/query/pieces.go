package query

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Limits of what [Reader.Pieces] reads second by second.
const (
	maxPieceCalls = 2 << 20 // of the window; above, pieces are ten seconds
	maxPieceWaits = 1 << 20
	maxPieces     = 1 << 16
)

// tickLength is the approximate length of a tick.
const tickLength = time.Second

// Pieces returns where the time of the filter's processes went, in pieces ordered by their ends;
// those at the window's edges extend beyond it. From and To of a piece are its exact bounds. least is
// the shortest useful piece. The filter must select one session.
//
// resolution is the approximate length of the longest pieces. It is a second for the ticks of a log, if
// least is below ten seconds, the log exists and is intact, and the window has at most 2 Mi calls, 1 Mi
// waits and 65536 pieces. If the number of calls is unknown, the window must be at most ten seconds
// long. Else pieces are sums that the database has stored: of ten seconds, or of ten minutes if least
// is at least that long. Older ticks and older sums of ten seconds are deleted. If the window begins
// before the kept ones, the next longer sums precede them.
func (r *Reader) Pieces(ctx context.Context, f Filter, least time.Duration) (out []Account, resolution time.Duration, err error) {
	s, err := r.Session(ctx, f.Session)
	if err != nil {
		return nil, 0, err
	}
	f.Session = s.ID
	if least < accountLength {
		calls, known, err := r.Called(ctx, f)
		if err != nil {
			return nil, 0, err
		}
		short := !f.From.IsZero() && !f.To.IsZero() && f.To.Sub(f.From) <= accountLength // too short for the counting rows
		if known && calls <= maxPieceCalls || !known && short {
			out, ok, err := r.tickPieces(ctx, &s, f)
			if err != nil {
				return nil, 0, err
			}
			if ok {
				out, length, err := r.withOlder(ctx, &s, f, out, tickLength, accountLength)
				if err != nil {
					return nil, 0, err
				}
				return r.withOlder(ctx, &s, f, out, length, longAccount)
			}
		}
	}
	from, to := bounds(f)
	for _, length := range []time.Duration{accountLength, longAccount} {
		if length < longAccount && least >= longAccount {
			continue
		}
		out, err := r.accountsAcross(ctx, &s, f, length, from, to)
		if err != nil || length == longAccount {
			return out, length, err
		}
		if len(out) > 0 {
			return r.withOlder(ctx, &s, f, out, length, longAccount)
		}
	}
	return nil, 0, nil
}

// Lengths of the stored accounts.
const (
	accountLength = 10 * time.Second
	longAccount   = 10 * time.Minute
)

// withOlder adds the stored accounts of the window's part before the first piece, which is older than
// what the pieces come from. It also returns the length of the longest pieces.
func (r *Reader) withOlder(ctx context.Context, s *Session, f Filter, pieces []Account, length, longer time.Duration) ([]Account, time.Duration, error) {
	from, _ := bounds(f)
	first := pieces[0].From
	if first <= from {
		return pieces, length, nil
	}
	older, err := r.accountsAcross(ctx, s, f, longer, from, first)
	older = slices.DeleteFunc(older, func(a Account) bool { return a.To > first })
	if err != nil || len(older) == 0 {
		return pieces, length, err
	}
	return append(older, pieces...), longer, nil
}

// accountsAcross returns the rows of one length that overlap [from, to).
func (r *Reader) accountsAcross(ctx context.Context, s *Session, f Filter, length time.Duration, from, to int64) ([]Account, error) {
	n := int64(length)
	wide := func(t, by int64) int64 { // an unbounded window stays unbounded
		if t == math.MinInt64 || t == math.MaxInt64 {
			return t
		}
		return t + by
	}
	all, err := r.accountsOf(ctx, s, f, int64(length/time.Second), wide(from, -n), wide(to, n))
	return slices.DeleteFunc(all, func(a Account) bool { return a.To <= from || a.From >= to }), err
}

// pieces builds pieces from ticks' accounts.
type pieces struct {
	f        Filter
	agent    uint32 // the agent's pid
	from, to int64
	before   map[threadKey]highest
	out      []Account
	at       map[uint32][]int // indexes in out, by process
	waits    []events.Wait
	full     bool
}

// highest has a thread's times so far. A correction makes its account smaller; it then grows by less
// until it has caught up, so that the pieces add up to the account.
type highest struct {
	until int64
	in    [tick.Places]tick.Times
}

// grow returns the growth of an account by place.
func (h *highest) grow(x *tick.Thread) (by [tick.Places]tick.Times) {
	now := [tick.Places]tick.Times{tick.InGPUWaits: x.Sync, tick.InCalls: x.InCalls.Since(&x.Sync), tick.BetweenCalls: x.Between}
	for p := range now {
		by[p] = now[p].Since(&h.in[p])
		h.in[p].Add(&by[p])
	}
	h.until = x.Until
	return by
}

type threadKey struct {
	pid, tid uint32
	since    int64
}

// tickPieces makes a piece of each tick. ok is false if there is too much to read, or none of it
// exists.
func (r *Reader) tickPieces(ctx context.Context, s *Session, f Filter) (out []Account, ok bool, err error) {
	p := pieces{f: f, agent: uint32(s.PID), before: map[threadKey]highest{}, at: map[uint32][]int{}}
	p.from, p.to = bounds(f)
	c, err := r.entries(ctx, s, func(l *segment.Log) {
		l.Window(p.from, p.to)
		if p.from != math.MinInt64 {
			l.SkipTo(p.from - int64(3*tickLength)) // the first piece needs the two previous ticks
		}
	}, p.entry)
	switch {
	case errors.Is(err, ErrNoCalls):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case p.full || len(c.Damage) > 0 || len(p.out) == 0:
		return nil, false, nil
	}
	p.name()
	return p.out, true, nil
}

// entry handles the log's next entry.
func (p *pieces) entry(e *segment.Entry) bool {
	for i := range e.Waits {
		if w := &e.Waits[i]; overlaps(w, p.from, p.to) && p.f.wants(w.PID) {
			p.waits = append(p.waits, *w)
		}
	}
	if len(p.waits) > maxPieceWaits || len(p.out) > maxPieces {
		p.full = true
		return false
	}
	if e.Tick == nil {
		return true
	}
	p.tick(e.Tick)
	return p.to == math.MaxInt64 || e.Tick.Time.UnixNano() < p.to+int64(2*tickLength)
}

// tick makes a piece of each process from the growth of its threads' accounts.
func (p *pieces) tick(t *tick.Tick) {
	now := map[uint32]int{}
	for i := range t.Threads {
		x := &t.Threads[i]
		if x.Enrolled || !p.f.wants(x.PID) {
			continue
		}
		k := threadKey{x.PID, x.TID, x.Since}
		was, known := p.before[k]
		from := x.Since
		if known {
			from = was.until
		}
		by := was.grow(x)
		p.before[k] = was
		if x.Until <= p.from || from >= p.to || x.Until <= from || !known && x.Until-x.Since > int64(3*tickLength) {
			continue // seen in part only: the time of its growth is unknown
		}
		j, has := now[x.PID]
		if !has {
			j = len(p.out)
			now[x.PID], p.at[x.PID] = j, append(p.at[x.PID], j)
			p.out = append(p.out, Account{Breakdown: tick.Breakdown{PID: x.PID}, From: from, To: x.Until})
		}
		p.out[j].add(x, by, from)
	}
}

// add adds the growth of a thread's account by place.
func (a *Account) add(now *tick.Thread, by [tick.Places]tick.Times, from int64) {
	a.From, a.To = min(a.From, from), max(a.To, now.Until)
	t := tick.ThreadTime{TID: now.TID, Comm: now.Comm}
	for p := range by {
		t.In[p].Times = by[p]
	}
	a.ByThread = append(a.ByThread, t)
	a.Threads++
	a.Elapsed += t.Elapsed()
	for p := range t.In {
		x := &t.In[p]
		a.Runnable, a.Throttled = a.Runnable+x.Runnable, a.Throttled+x.Throttled
		switch tick.Place(p) {
		case tick.InGPUWaits:
			a.GPUWait += x.OnCPU + x.Blocked
		case tick.InCalls:
			a.CallCPU, a.Blocked = a.CallCPU+x.OnCPU, a.Blocked+x.Blocked
		default:
			a.GapCPU, a.Blocked = a.GapCPU+x.OnCPU, a.Blocked+x.Blocked
		}
	}
}

// name adds to the pieces who and what took the time, as far as waits show it. A wait across
// several pieces is split between them.
func (p *pieces) name() {
	for i := range p.waits {
		w := &p.waits[i]
		at := p.at[w.PID]
		first, _ := slices.BinarySearchFunc(at, w.Start, func(j int, t int64) int { return cmp.Compare(p.out[j].To, t+1) })
		for _, j := range at[first:] {
			a := &p.out[j]
			if a.From >= w.End() {
				break
			}
			if n := min(w.End(), a.To) - max(w.Start, a.From); n > 0 {
				a.name(w, n, p.agent)
			}
		}
	}
	for i := range p.out {
		a := &p.out[i]
		slices.SortStableFunc(a.RunnableBy, byTime)
		slices.SortStableFunc(a.BlockedOn, byTime)
		for j := range a.ByThread {
			for k := range a.ByThread[j].In {
				x := &a.ByThread[j].In[k]
				slices.SortStableFunc(x.RunnableBy, byTime)
				slices.SortStableFunc(x.BlockedOn, byTime)
			}
		}
		slices.SortStableFunc(a.ByThread, func(x, y tick.ThreadTime) int {
			return cmp.Or(cmp.Compare(y.Busy(), x.Busy()), cmp.Compare(x.TID, y.TID))
		})
	}
}

func byTime(a, b tick.Share) int {
	return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Who.TID, b.Who.TID))
}

// name adds ns of a wait to the shares of the process and of the thread.
func (a *Account) name(w *events.Wait, ns int64, agent uint32) {
	s := tick.Share{NS: uint64(ns), Count: 1, Who: w.Who, Own: w.Who.PID != 0 && w.Who.PID == w.PID, Agent: w.Who.PID != 0 && w.Who.PID == agent}
	place := tick.BetweenCalls
	if w.Op != 0 {
		place = tick.InCalls
		if row := w.Op.Row(); row != nil && row.Class == events.ClassSync {
			place = tick.InGPUWaits
		}
	}
	j := slices.IndexFunc(a.ByThread, func(t tick.ThreadTime) bool { return t.TID == w.TID })
	if j < 0 {
		return
	}
	x := &a.ByThread[j].In[place]
	switch w.State {
	case events.WaitRunnable:
		s.Reason = w.Reason
		if s.Idle = w.Flags&events.WaitIdle != 0; !s.Idle && w.Duration > 0 { // it had the CPU for a part of the wait
			s.NS = uint64(float64(ns) * float64(min(max(w.Taken, 0), w.Duration)) / float64(w.Duration))
		}
		addShare(&a.RunnableBy, &s)
		addShare(&x.RunnableBy, &s)
	case events.WaitBlocked:
		if place == tick.InGPUWaits { // waiting for the GPU needs no reason
			return
		}
		s.ByIRQ, s.Reason, s.Call, s.File, s.Dev = w.Flags&events.WaitByIRQ != 0, w.Reason, w.Syscall, w.File, w.Dev
		addShare(&a.BlockedOn, &s)
		addShare(&x.BlockedOn, &s)
	}
}

// maxNames bounds the names of a part of a piece; the rest stays unnamed.
const maxNames = 64

// addShare adds to the share of the same name, or appends one.
func addShare(to *[]tick.Share, s *tick.Share) {
	for i := range *to {
		x := &(*to)[i]
		if x.Who.PID == s.Who.PID && x.Who.TID == s.Who.TID && x.Idle == s.Idle && x.ByIRQ == s.ByIRQ && x.Reason == s.Reason && x.Call == s.Call && x.File == s.File && x.Dev == s.Dev {
			x.NS, x.Count = x.NS+s.NS, x.Count+s.Count
			return
		}
	}
	if len(*to) < maxNames {
		*to = append(*to, *s)
	}
}
