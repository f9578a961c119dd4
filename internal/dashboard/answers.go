package dashboard

import (
	"encoding/json"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

func (a *request) time() (any, error) {
	now := a.Now()
	return wire.Clock{Node: a.Node, Version: a.Version, TimeNS: now.UnixNano(), Time: now.UTC().Format(time.RFC3339Nano)}, nil
}

// sums sums the question's calls, and records which recordings they come from.
func (a *request) sums() (*explain.OpTable, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	for i := range sessions {
		a.recordings = append(a.recordings, sessions[i].ID)
	}
	t := &explain.OpTable{From: a.q.From, To: a.q.To, Database: a.Node, Label: a.q.By}
	var cover query.Coverage
	ticks := true // all counts are the kernel's
	for i := range sessions {
		s := &sessions[i]
		f, comms, err := a.filter(s)
		if err != nil {
			return nil, err
		}
		stats, c, err := a.db.OpStats(a.ctx, f, query.Group{PID: a.q.PerProcess, Label: a.q.By})
		if err != nil {
			return nil, err
		}
		cover.Add(c)
		ticks = ticks && !c.From.IsZero()
		for j := range stats {
			x := &stats[j]
			row := explain.OpRow{Node: s.Node, Label: x.Label, Op: tick.Op{PID: x.PID, Op: x.Op, Sum: x.Sum, Dur: x.Dur}}
			if a.q.PerProcess {
				row.Comm = comms[x.PID]
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if ticks && !cover.From.IsZero() {
		t.From, t.To = cover.From, cover.To
	}
	t.Notes = explain.CoverageNotes(&cover)
	return t, nil
}

func (a *request) ops() (any, error) {
	t, err := a.sums()
	if err != nil {
		return nil, err
	}
	if !a.q.Sums {
		text, err := explain.OperationsJSON(t)
		return json.RawMessage(text), err
	}
	out := &wire.Ops{Node: a.Node, FromNS: t.From.UnixNano(), ToNS: t.To.UnixNano(), Sums: []wire.Sum{}, Notes: append([]string{}, t.Notes...), Recordings: a.recordings}
	for i := range t.Rows {
		r := &t.Rows[i]
		sketch, err := r.Op.Dur.MarshalBinary()
		if err != nil {
			return nil, err
		}
		out.Sums = append(out.Sums, wire.Sum{Op: r.Op.Op.String(), Source: uint8(r.Op.Op.Source()), PID: r.Op.PID, Comm: r.Comm, Counts: r.Op.Sum, Sketch: sketch})
	}
	return out, nil
}

// report returns what was lost in the window, and why.
func (a *request) report() (*explain.Input, *wire.Report, error) {
	in, err := a.Report(a.ctx, a.db, &a.q)
	if err != nil {
		return nil, nil, err
	}
	in.Node = a.Node
	return in, explain.BuildReport(in), nil
}

func (a *request) explain() (any, error) {
	in, report, err := a.report()
	if err != nil {
		return nil, err
	}
	return wire.Explained[*wire.Report]{Node: a.Node, Report: report, Text: explain.Report(in, explain.Options{Location: a.q.Zone})}, nil
}

func (a *request) chains() (any, error) {
	_, r, err := a.report()
	if err != nil {
		return nil, err
	}
	return wire.Chains{From: r.From, To: r.To, Node: r.Node, Chains: r.Chains, Hidden: r.Hidden, Notes: r.Notes}, nil
}

func snapshotOf(s *query.Snapshot) wire.Snapshot {
	h := &s.Host
	return wire.Snapshot{Time: s.Time.UTC(), Node: s.Node, CPU: h.CPU, CPUs: h.CPUs, Load: h.Load, MemTotal: h.MemTotal, MemAvail: h.MemAvail,
		SwapTotal: h.SwapTotal, SwapUsed: h.SwapUsed, Records: s.Records, AgentCPU: int64(s.Self.CPU), AgentRSS: s.Self.RSS}
}

// maxSnapshots bounds the snapshots of an answer.
const maxSnapshots = 3600

func (a *request) snapshots() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	all, total := make([][]query.Snapshot, len(sessions)), 0
	for i := range sessions {
		if all[i], err = a.db.Snapshots(a.ctx, query.Filter{Session: sessions[i].ID, From: a.q.From, To: a.q.To}); err != nil {
			return nil, err
		}
		total += len(all[i])
	}
	out := wire.Snapshots{Scope: a.about(), Every: max((total+maxSnapshots-1)/maxSnapshots, 1), Snapshots: []wire.Snapshot{}}
	for _, one := range all { // each alone: machines may take turns
		for i := 0; i < len(one); i += out.Every {
			out.Snapshots = append(out.Snapshots, snapshotOf(&one[i]))
		}
	}
	slices.SortStableFunc(out.Snapshots, func(a, b wire.Snapshot) int { return a.Time.Compare(b.Time) })
	return out, nil
}

func (a *request) backup() (any, error) { return nil, a.sendBackup() }
