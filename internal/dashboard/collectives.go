package dashboard

import (
	"time"

	"ingero/internal/query"
	"ingero/internal/wire"
)

func (a *request) collectives() (any, error) {
	sessions, err := a.sessions()
	if err != nil {
		return nil, err
	}
	now := a.Now()
	out := &wire.Collectives{Node: a.Node, Ranks: []wire.Rank{}}
	for i := range sessions {
		f, comms, err := a.filter(&sessions[i])
		if err != nil {
			return nil, err
		}
		ahead := query.Ahead(&sessions[i], now)
		logs, err := a.db.Collectives(a.ctx, f)
		if err != nil {
			return nil, err
		}
		for j := range logs {
			out.Ranks = append(out.Ranks, rankOf(&logs[j], comms, ahead))
		}
	}
	return out, nil
}

// rankOf returns a rank with times by the wall clock, which may be ahead of the recording's clock.
func rankOf(l *query.RankLog, comms map[uint32]string, ahead time.Duration) wire.Rank {
	r := wire.Rank{Comm: l.Comm, Rank: l.Rank, Ranks: l.Ranks, PID: l.PID, Name: comms[l.PID], State: l.State, Done: l.Done,
		SeenNS: l.Session.Updated.Add(ahead).UnixNano(), Entries: []wire.Entry{}}
	if !l.Ended.IsZero() {
		r.EndedNS = l.Ended.Add(ahead).UnixNano()
	}
	for _, e := range l.Entries {
		r.Entries = append(r.Entries, wire.Entry{Seq: e.Seq, Op: e.Op.String(), TimeNS: e.Time + int64(ahead)})
	}
	return r
}
