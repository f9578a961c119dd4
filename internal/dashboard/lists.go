package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// threadsOf is the end of a long window whose threads are listed.
const threadsOf = 10 * time.Minute

func moment64(t time.Time) *wire.Millis {
	if t.IsZero() {
		return nil
	}
	return new(wire.Millis(t.UnixNano()))
}

// processes lists the window's processes, most calls first.
func (a *request) processes() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	out := wire.Processes{Scope: a.about(), Procs: []wire.RecordedProcess{}, Notes: []string{}}
	var cover query.Coverage
	for i := range sessions {
		some, err := a.processesOf(&sessions[i], &cover)
		if err != nil {
			return nil, err
		}
		out.Procs = append(out.Procs, some...)
	}
	slices.SortStableFunc(out.Procs, func(x, y wire.RecordedProcess) int {
		return cmp.Or(cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.PID, y.PID))
	})
	out.More = max(len(out.Procs)-a.q.Limit, 0)
	out.Procs = out.Procs[:len(out.Procs)-out.More]
	out.Notes = append(out.Notes, explain.CoverageNotes(&cover)...)
	return out, nil
}

func (a *request) processesOf(s *query.Session, cover *query.Coverage) (out []wire.RecordedProcess, err error) {
	f, _, err := a.filter(s)
	if err != nil {
		return nil, err
	}
	stats, c, err := a.db.OpStats(a.ctx, f, query.Group{PID: true})
	if err != nil {
		return nil, err
	}
	cover.Add(c)
	calls, ns := map[uint32]uint64{}, map[uint32]uint64{}
	for i := range stats {
		x := &stats[i]
		calls[x.PID], ns[x.PID] = calls[x.PID]+x.Sum.Calls, ns[x.PID]+x.Sum.Total
	}
	recent := f
	if last := f.To.Add(-threadsOf); last.After(f.From) {
		recent.From = last
	}
	accounts, err := a.db.Accounts(a.ctx, recent)
	if err != nil {
		return nil, err
	}
	threads := map[uint32][]tick.ThreadTime{}
	for i := range accounts {
		threads[accounts[i].PID] = accounts[i].ByThread
	}
	all, err := a.db.Processes(a.ctx, s.ID)
	for i := range all {
		p := &all[i]
		if len(f.PIDs) > 0 && !slices.Contains(f.PIDs, p.PID) || calls[p.PID] == 0 && len(threads[p.PID]) == 0 {
			continue
		}
		j := wire.RecordedProcess{Node: s.Node, Session: s.ID, PID: p.PID, PPID: p.PPID, Comm: explain.Clean(p.Comm), Exe: explain.Clean(p.Exe), Cmdline: explain.Clean(p.Cmdline),
			Started: moment64(p.Started), Ended: moment64(p.Ended), Cgroup: explain.Clean(p.Cgroup), Pod: p.Pod, Namespace: p.Namespace, Container: p.Container, Job: p.Job,
			Calls: calls[p.PID], CallNS: ns[p.PID], Threads: []wire.RecordedThread{}}
		for k := range threads[p.PID] {
			if t := &threads[p.PID][k]; t.TID != 0 {
				j.Threads = append(j.Threads, wire.RecordedThread{TID: t.TID, Comm: explain.Clean(t.Comm)})
			}
		}
		out = append(out, j)
	}
	return out, err
}

// listRecordings lists the recordings, latest first.
func (a *request) listRecordings() (any, error) {
	all, err := a.db.Sessions(a.ctx)
	if err != nil {
		return nil, err
	}
	counts, err := a.db.Select(a.ctx, "SELECT s.uid, count(*) FROM chains AS c JOIN sessions AS s ON s.id = c.session GROUP BY 1")
	if err != nil {
		return nil, err
	}
	chains := map[string]int64{}
	for _, row := range counts {
		n, _ := row[1].(int64)
		chains[fmt.Sprint(row[0])] = n
	}
	out := wire.Recordings{Node: a.Node, Recordings: []wire.Recording{}}
	for i := range all {
		s := &all[i]
		if a.q.Node != "" && s.Node != a.q.Node || a.q.Session != "" && s.ID != a.q.Session {
			continue
		}
		if len(out.Recordings) >= a.q.Limit {
			out.More++
			continue
		}
		to := s.Updated
		if s.Ended.After(to) {
			to = s.Ended
		}
		out.Recordings = append(out.Recordings, wire.Recording{ID: s.ID, Node: s.Node, From: s.Started.UTC(), To: to.UTC(), State: s.State, Problem: explain.Clean(s.Problem),
			Version: s.Version, Kernel: s.Kernel, Mode: s.Mode, Target: explain.Clean(s.Target), Calls: s.Records, LogBytes: s.LogBytes, Pruned: s.Pruned, Cut: s.Cut, Chains: chains[s.ID]})
	}
	return out, nil
}

// communicators lists the NCCL communicators in their last states.
func (a *request) communicators() (any, error) {
	out := wire.Communicators{Node: a.Node, Rows: []wire.Row{}}
	var err error
	out.Columns, out.Rows, err = a.view("comms")
	return out, err
}

// view returns a view of the recordings' state, with its column names.
func (a *request) view(name string) (columns []string, rows []wire.Row, err error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, nil, err
	}
	rows = []wire.Row{}
	view, _ := query.StateViewNamed(name)
	for i := range sessions {
		f, _, err := a.filter(&sessions[i])
		if err != nil {
			return nil, nil, err
		}
		res, err := a.db.State(a.ctx, f, view)
		if err != nil {
			return nil, nil, err
		}
		columns = res.Columns
		for _, row := range res.Rows {
			if len(rows) < maxLimit {
				rows = append(rows, row)
			}
		}
	}
	return columns, rows, nil
}
