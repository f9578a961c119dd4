package dashboard

import (
	"cmp"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// The parts of time, in stacking order.
const (
	partGPU = iota
	partCalls
	partGaps
	partRunnable
	partThrottled
	partBlocked
	partKinds
)

var partNames = [partKinds]string{"gpu_wait", "call_cpu", "gap_cpu", "runnable", "throttled", "blocked"}

// Limits of a timeline.
const (
	mostStrips = 32 // maximum of limit
	mostNamed  = 4  // named series per part
	mostSeries = 64 // names per part while collecting
)

// strip is a row under construction.
type strip struct {
	pid, tid uint32
	rest     bool
	comm     string
	session  *query.Session
	elapsed  uint64
	busy     uint64 // time in calls
	seen     []bool // buckets with data
	sums     map[partKey][]uint64
}

// partKey is a part, or a named piece of it.
type partKey struct {
	kind int
	name string
}

func newStrip(s *query.Session, pid, tid uint32, comm string, n int) *strip {
	return &strip{pid: pid, tid: tid, comm: comm, session: s, seen: make([]bool, n), sums: map[partKey][]uint64{}}
}

// add spreads a part of a piece over buckets, with its named shares.
func (x *strip) add(s *scale, from, to int64, kind int, ns uint64, shares []tick.Share, name func(*tick.Share) string) {
	left := ns
	add := func(name string, ns uint64) {
		k := partKey{kind, name}
		at := x.sums[k]
		if at == nil && name != "" && x.named(kind) >= mostSeries {
			return // not separate
		}
		if at == nil {
			at = make([]uint64, s.n)
			x.sums[k] = at
		}
		left -= ns
		s.spread(from, to, ns, func(i int, v uint64) { at[i] += v })
	}
	for i := range shares {
		if n := min(shares[i].NS, left); n > 0 {
			add(name(&shares[i]), n)
		}
	}
	if left > 0 {
		add("", left)
	}
}

func (x *strip) named(kind int) (n int) {
	for k := range x.sums {
		if k.kind == kind {
			n++
		}
	}
	return n
}

// spent adds a piece of time: the sum of each part, and its named shares.
func (x *strip) spent(s *scale, from, to int64, parts [partKinds]uint64, by, on []tick.Share) {
	s.spread(from, to, 0, func(i int, _ uint64) { x.seen[i] = true })
	for kind, ns := range parts {
		switch {
		case ns == 0:
		case kind == partRunnable:
			x.add(s, from, to, kind, ns, by, explain.CPUUser)
		case kind == partBlocked:
			x.add(s, from, to, kind, ns, on, explain.BlockedOn)
		default:
			x.add(s, from, to, kind, ns, nil, nil)
		}
	}
}

// json returns the row with the largest series of each part; the others are one series.
func (x *strip) json() wire.TimelineRow {
	j := wire.TimelineRow{PID: x.pid, TID: x.tid, Rest: x.rest, Comm: explain.Clean(x.comm), Node: x.session.Node, Session: x.session.ID, Series: []wire.Series{}}
	type series struct {
		partKey
		ns  []uint64
		sum uint64
	}
	var all []series
	for k, ns := range x.sums {
		one := series{k, ns, 0}
		for _, v := range ns {
			one.sum += v
		}
		j.ElapsedNS += one.sum
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b series) int {
		last := func(s *series) int { return min(len(s.name), 1) }
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(last(&b), last(&a)), cmp.Compare(b.sum, a.sum), cmp.Compare(a.name, b.name))
	})
	named := map[int]int{}
	for i := range all {
		s := &all[i]
		if named[s.kind]++; s.name != "" && named[s.kind] > mostNamed {
			s.name = ""
		}
		if n := len(j.Series); s.name == "" && n > 0 && j.Series[n-1].Kind == partNames[s.kind] && j.Series[n-1].Name == "" {
			for b, v := range s.ns {
				if x.seen[b] {
					j.Series[n-1].NS[b] += wire.Known(v)
				}
			}
			continue
		}
		out := wire.Series{Kind: partNames[s.kind], Name: s.name, NS: make([]wire.Known, len(s.ns))}
		for b, v := range s.ns {
			if out.NS[b] = -1; x.seen[b] {
				out.NS[b] = wire.Known(v)
			}
		}
		j.Series = append(j.Series, out)
	}
	return j
}

// timeline answers where the time went, by bucket.
func (a *request) timeline() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	out := wire.Timeline{Scope: a.about(), Rows: []wire.TimelineRow{}, Notes: []string{}}
	s := a.divided(time.Second)
	type part struct {
		comms  map[uint32]string
		pieces []query.Account
	}
	parts := make([]part, len(sessions))
	var coarsest time.Duration
	for i := range sessions {
		f, comms, err := a.filter(&sessions[i])
		if err != nil {
			return nil, err
		}
		pieces, length, err := a.db.Pieces(a.ctx, f, time.Duration(s.width))
		if err != nil {
			return nil, err
		}
		parts[i] = part{comms, pieces}
		if len(pieces) > 0 {
			coarsest = max(coarsest, length)
		}
	}
	s = a.divided(max(coarsest, time.Second))
	t := strips{scale: &s, byKey: map[stripKey]*strip{}}
	for i := range sessions {
		t.take(&sessions[i], parts[i].comms, parts[i].pieces)
	}
	out.Scale, out.Resolution = s.json(), resolutions[coarsest]
	if out.Rows, out.More = t.rows(min(a.q.Limit, mostStrips)); len(out.Rows) == 0 {
		out.Notes = append(out.Notes, "The account of time was not recorded: run ingero check to see what it needs.")
	}
	return out, nil
}

// resolutions are the names of the pieces' lengths.
var resolutions = map[time.Duration]string{time.Second: "1 s", 10 * time.Second: "10 s", 10 * time.Minute: "10 min"}

// strips are the rows of all recordings.
type strips struct {
	*scale
	byKey map[stripKey]*strip
	all   []*strip
}

type stripKey struct {
	session  string
	pid, tid uint32
	rest     bool
}

// take adds one recording's pieces.
func (t *strips) take(s *query.Session, comms map[uint32]string, pieces []query.Account) {
	for i := range pieces {
		p := &pieces[i]
		x := t.strip(stripKey{s.ID, p.PID, 0, false}, s, comms[p.PID])
		x.elapsed += p.Elapsed
		x.spent(t.scale, p.From, p.To, [partKinds]uint64{p.GPUWait, p.CallCPU, p.GapCPU, p.Runnable, p.Throttled, p.Blocked}, p.RunnableBy, p.BlockedOn)
		for j := range p.ByThread {
			th := &p.ByThread[j]
			y := t.strip(stripKey{s.ID, p.PID, th.TID, th.TID == 0}, s, th.Comm)
			y.rest, y.busy = th.TID == 0, y.busy+th.Busy()
			x.busy += th.Busy()
			var parts [partKinds]uint64
			var by, on []tick.Share
			for place := range th.In {
				in := &th.In[place]
				parts[partRunnable], parts[partThrottled] = parts[partRunnable]+in.Runnable, parts[partThrottled]+in.Throttled
				by = append(by, in.RunnableBy...)
				switch tick.Place(place) {
				case tick.InGPUWaits:
					parts[partGPU] += in.OnCPU + in.Blocked
					continue
				case tick.InCalls:
					parts[partCalls] += in.OnCPU
				default:
					parts[partGaps] += in.OnCPU
				}
				parts[partBlocked] += in.Blocked
				on = append(on, in.BlockedOn...)
			}
			y.spent(t.scale, p.From, p.To, parts, by, on)
		}
	}
}

// strip returns the row with a key.
func (t *strips) strip(k stripKey, s *query.Session, comm string) *strip {
	x := t.byKey[k]
	if x == nil {
		x = newStrip(s, k.pid, k.tid, comm, t.n)
		t.byKey[k], t.all = x, append(t.all, x)
	}
	if x.comm == "" {
		x.comm = comm
	}
	return x
}

// rows returns the processes with most time in calls first, each followed by its threads; more
// counts those beyond the limit. Threads are dropped before processes.
func (t *strips) rows(limit int) (out []wire.TimelineRow, more int) {
	byBusy := func(a, b *strip) int {
		return cmp.Or(cmp.Compare(b.busy, a.busy), cmp.Compare(a.pid, b.pid), cmp.Compare(a.tid, b.tid))
	}
	slices.SortFunc(t.all, byBusy)
	processes := slices.DeleteFunc(slices.Clone(t.all), func(x *strip) bool { return x.tid != 0 || x.rest })
	threads := slices.DeleteFunc(slices.Clone(t.all), func(x *strip) bool { return x.tid == 0 && !x.rest })
	more = max(len(processes)-limit, 0)
	processes = processes[:min(len(processes), limit)]
	room := min(limit-len(processes), len(threads))
	more += len(threads) - room
	out = []wire.TimelineRow{}
	for _, p := range processes {
		out = append(out, p.json())
		for _, x := range threads[:room] {
			if x.pid == p.pid && x.session == p.session {
				out = append(out, x.json())
			}
		}
	}
	return out, more
}
