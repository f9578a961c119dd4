package dashboard

import (
	"ingero/internal/query"
	"ingero/internal/wire"
)

func (a *request) collectives() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	out := &wire.Collectives{Node: a.Node, Ranks: []wire.Rank{}}
	for i := range sessions {
		f, comms, err := a.filter(&sessions[i])
		if err != nil {
			return nil, err
		}
		logs, err := a.db.Collectives(a.ctx, f)
		if err != nil {
			return nil, err
		}
		for j := range logs {
			out.Ranks = append(out.Ranks, rankOf(&logs[j], comms))
		}
	}
	return out, nil
}

func rankOf(l *query.RankLog, comms map[uint32]string) wire.Rank {
	r := wire.Rank{Comm: l.Comm, Rank: l.Rank, Ranks: l.Ranks, PID: l.PID, Name: comms[l.PID], State: l.State, Done: l.Done,
		SeenNS: l.Session.Updated.UnixNano(), Entries: []wire.Entry{}}
	if !l.Ended.IsZero() {
		r.EndedNS = l.Ended.UnixNano()
	}
	for _, e := range l.Entries {
		r.Entries = append(r.Entries, wire.Entry{Seq: e.Seq, Op: e.Op.String(), TimeNS: e.Time})
	}
	return r
}
