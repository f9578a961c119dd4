package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// table queries the operations and formats them.
func (o *queryOptions) table(ctx context.Context, r *query.Reader, a *answerData, zone *time.Location) ([]byte, error) {
	t := &explain.OpTable{From: a.from, To: a.to, Database: a.path}
	t.Label, _ = strings.CutPrefix(o.by, byLabel)
	ticks := true // all counts are the kernel's
	for i := range a.sessions {
		if o.by == byFunction {
			if err := o.functions(ctx, r, a, i, t); err != nil {
				return nil, err
			}
			continue
		}
		stats, cover, err := r.OpStats(ctx, a.filters[i], query.Group{PID: o.perProcess, Label: t.Label})
		if err != nil {
			return nil, err
		}
		a.covered(cover)
		ticks = ticks && !cover.From.IsZero()
		comms := commsOf(a.facts[i])
		for j := range stats {
			x := &stats[j]
			row := explain.OpRow{Node: a.sessions[i].Node, Label: x.Label, Op: tick.Op{PID: x.PID, Op: x.Op, Sum: x.Sum, Dur: x.Dur}}
			if o.perProcess {
				row.Comm = comms[x.PID]
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 && len(a.cover.Missing) > 0 {
		return nil, a.gone()
	}
	if ticks && !a.cover.From.IsZero() {
		t.From, t.To = a.cover.From, a.cover.To
	}
	switch {
	case o.json:
		t.Notes = a.notes(zone)
		return explain.OperationsJSON(t)
	case o.csv:
		return explain.OperationsCSV(t), nil
	}
	return []byte(explain.Operations(t, explain.Options{Location: zone, NoTruncate: a.whole})), nil
}

// functions adds a session's launches, grouped by GPU function.
func (o *queryOptions) functions(ctx context.Context, r *query.Reader, a *answerData, i int, t *explain.OpTable) error {
	stats, cover, err := r.FunctionStats(ctx, a.filters[i], o.perProcess)
	a.covered(cover)
	comms := commsOf(a.facts[i])
	for j := range stats {
		x := &stats[j]
		row := explain.OpRow{Node: a.sessions[i].Node, Function: x.Function, NoFunction: x.Why,
			Op: tick.Op{PID: x.PID, Op: x.Op, Sum: x.Sum, Dur: x.Dur}}
		if o.perProcess {
			row.Comm = comms[x.PID]
		}
		t.Rows = append(t.Rows, row)
	}
	return err
}

func commsOf(s *query.Summary) map[uint32]string {
	out := map[uint32]string{}
	for i := range s.Processes {
		out[s.Processes[i].PID] = s.Processes[i].Comm
	}
	return out
}

// list queries single calls and formats them.
func (o *queryOptions) list(ctx context.Context, r *query.Reader, a *answerData, zone *time.Location) ([]byte, error) {
	p := callSelection{most: int(o.limit), slowest: o.order == bySlowest}
	if p.most == 0 {
		p.most = someCalls
	}
	for i := range a.sessions {
		s := &a.sessions[i]
		comms := commsOf(a.facts[i])
		funcs, err := r.Functions(ctx, s)
		if err != nil {
			return nil, err
		}
		cover, err := r.Each(ctx, a.filters[i], func(_ *query.Session, c *events.Call, _ uint64) bool {
			return p.add(c, func() explain.CallRow {
				return explain.CallRow{Node: s.Node, Session: s.ID, Comm: comms[c.PID], Function: funcs.Name(c), Call: *c}
			})
		})
		if err != nil {
			return nil, err
		}
		a.covered(cover)
		if p.full {
			break
		}
	}
	l := &explain.CallList{From: a.from, To: a.to, Slowest: p.slowest, Rows: p.sorted()}
	if !p.full {
		l.Total = p.seen
	}
	if len(l.Rows) == 0 && len(a.cover.Missing) > 0 {
		return nil, a.gone()
	}
	switch {
	case o.json:
		return explain.CallsJSON(l), nil
	case o.csv:
		return explain.CallsCSV(l), nil
	}
	return []byte(explain.Calls(l, explain.Options{Location: zone, NoTruncate: a.whole})), nil
}

// callSelection keeps the slowest calls, or the first ones.
type callSelection struct {
	most    int
	slowest bool
	seen    uint64
	full    bool // there are more calls than most
	rows    []explain.CallRow
}

// add adds a call. It returns false if no more calls are needed.
func (p *callSelection) add(c *events.Call, row func() explain.CallRow) bool {
	if !p.slowest {
		if p.full = len(p.rows) == p.most; p.full {
			return false
		}
		p.seen++
		p.rows = append(p.rows, row())
		return true
	}
	if c.Flags&events.CallUnmeasured != 0 { // its duration is unknown
		return true
	}
	p.seen += uint64(c.Weight)
	if len(p.rows) == p.most && bySlow(*c, p.rows[len(p.rows)-1].Call) >= 0 {
		return true
	}
	at, _ := slices.BinarySearchFunc(p.rows, c, func(r explain.CallRow, c *events.Call) int { return bySlow(r.Call, *c) })
	if len(p.rows) == p.most {
		p.rows = p.rows[:p.most-1]
	}
	p.rows = slices.Insert(p.rows, at, row())
	return true
}

// bySlow orders calls by duration, descending, then by start.
func bySlow(a, b events.Call) int {
	return cmp.Or(cmp.Compare(b.Duration, a.Duration), cmp.Compare(a.Start, b.Start))
}

// sorted returns the kept calls: the slowest first, or the first ones by start.
func (p *callSelection) sorted() []explain.CallRow {
	if !p.slowest { // records are in the order in which calls ended
		slices.SortStableFunc(p.rows, func(a, b explain.CallRow) int { return cmp.Compare(a.Call.Start, b.Call.Start) })
	}
	return p.rows
}
