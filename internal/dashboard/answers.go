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
	t := &explain.OpTable{From: a.q.From, To: a.q.To, Database: a.Node}
	var cover query.Coverage
	for i := range sessions {
		s := &sessions[i]
		f, comms, err := a.filter(s)
		if err != nil {
			return nil, err
		}
		stats, c, err := a.db.OpStats(a.ctx, f, query.Group{PID: a.q.PerProcess})
		if err != nil {
			return nil, err
		}
		cover.Add(c)
		for j := range stats {
			x := &stats[j]
			row := explain.OpRow{Node: s.Node, Op: tick.Op{PID: x.PID, Op: x.Op, Sum: x.Sum, Dur: x.Dur}}
			if a.q.PerProcess {
				row.Comm = comms[x.PID]
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if !cover.From.IsZero() {
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
func (a *request) report() (*explain.Input, json.RawMessage, error) {
	in, err := a.Report(a.ctx, a.db, &a.q)
	if err != nil {
		return nil, nil, err
	}
	in.Node = a.Node
	text, err := explain.ReportJSON(in)
	return in, text, err
}

func (a *request) explain() (any, error) {
	in, text, err := a.report()
	if err != nil {
		return nil, err
	}
	return wire.Explained{Node: a.Node, Report: text, Text: explain.Report(in, explain.Options{Location: a.q.Zone})}, nil
}

// chainsJSON are a report's causes, with the context needed to read them.
type chainsJSON struct {
	From   time.Time         `json:"from"`
	To     time.Time         `json:"to"`
	Node   string            `json:"node"`
	Chains []json.RawMessage `json:"chains"`
	Hidden json.RawMessage   `json:"hidden,omitempty"`
	Notes  []string          `json:"notes"`
}

func (a *request) chains() (any, error) {
	_, text, err := a.report()
	if err != nil {
		return nil, err
	}
	var out chainsJSON
	err = json.Unmarshal(text, &out)
	return out, err
}

// snapshotJSON is the machine's state at one time. Shares are from 0 to 1.
type snapshotJSON struct {
	Time      time.Time  `json:"time"`
	Node      string     `json:"node"`
	CPU       float64    `json:"cpu"`
	CPUs      int        `json:"cpus"`
	Load      [3]float64 `json:"load"`
	MemTotal  int64      `json:"mem_total_bytes"`
	MemAvail  int64      `json:"mem_available_bytes"`
	SwapTotal int64      `json:"swap_total_bytes"`
	SwapUsed  int64      `json:"swap_used_bytes"`
	Records   uint64     `json:"records"`
	AgentCPU  int64      `json:"agent_cpu_ns"`
	AgentRSS  int64      `json:"agent_rss_bytes"`
}

func snapshotOf(s *query.Snapshot) snapshotJSON {
	h := &s.Host
	return snapshotJSON{Time: s.Time.UTC(), Node: s.Node, CPU: h.CPU, CPUs: h.CPUs, Load: h.Load, MemTotal: h.MemTotal, MemAvail: h.MemAvail,
		SwapTotal: h.SwapTotal, SwapUsed: h.SwapUsed, Records: s.Records, AgentCPU: int64(s.Self.CPU), AgentRSS: s.Self.RSS}
}

// maxSnapshots bounds the snapshots of an answer.
const maxSnapshots = 3600

func (a *request) snapshots() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	var all []query.Snapshot
	for i := range sessions {
		some, err := a.db.Snapshots(a.ctx, query.Filter{Session: sessions[i].ID, From: a.q.From, To: a.q.To})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b query.Snapshot) int { return a.Time.Compare(b.Time) })
	out := struct {
		From      time.Time      `json:"from"`
		To        time.Time      `json:"to"`
		Node      string         `json:"node"`
		Every     int            `json:"every"` // 1: all, n: every n-th
		Snapshots []snapshotJSON `json:"snapshots"`
	}{a.q.From.UTC(), a.q.To.UTC(), a.Node, (len(all) + maxSnapshots - 1) / maxSnapshots, []snapshotJSON{}}
	out.Every = max(out.Every, 1)
	for i := 0; i < len(all); i += out.Every {
		out.Snapshots = append(out.Snapshots, snapshotOf(&all[i]))
	}
	return out, nil
}

func (a *request) backup() (any, error) { return nil, a.sendBackup() }
