package store

import (
	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

var (
	sqlEpisode = `INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET severity = excluded.severity, culprits = excluded.culprits, to_ns = excluded.to_ns,
		ended_ns = excluded.ended_ns, why = excluded.why, hidden = excluded.hidden, lost_ns = excluded.lost_ns`
	sqlNoEpisode = `DELETE FROM episodes WHERE session = ? AND id = ?`
)

// pendingEpisode is an episode event that is not in the file yet.
type pendingEpisode struct {
	tick.Episode
	at       int64
	culprits string
}

// noteEpisodes queues a tick's episode events until they are written: each event is in one tick only.
func (v *saver) noteEpisodes(t *tick.Tick) error {
	for i := range t.Episodes {
		row, err := toChainRow(&t.Episodes[i].Chain)
		if err != nil {
			return err
		}
		v.episodes = queue(v, v.episodes, pendingEpisode{t.Episodes[i], segment.UnixNano(t.Time), row.culprits})
	}
	return nil
}

// saveEpisodes writes the queued events in order.
func (v *saving) saveEpisodes() error {
	for i := range v.episodes {
		e := &v.episodes[i]
		var err error
		switch e.Kind {
		case tick.EpisodeRevised:
			err = v.exec(&sqlNoEpisode, v.id, e.ID)
		default:
			var ended any
			why := tick.EpisodeReason("")
			if e.Kind == tick.EpisodeEnd {
				ended, why = e.at, e.Why
			}
			err = v.exec(&sqlEpisode, v.id, e.ID, e.Chain.ID, e.Chain.Rule, e.Severity.String(), e.Chain.PID, e.culprits,
				null(segment.UnixNano(e.From)), null(segment.UnixNano(e.To)), e.at, ended, string(why), e.Hidden, int64(e.Lost))
		}
		if err != nil {
			return err
		}
	}
	v.done = append(v.done, func() { v.episodes = nil })
	return nil
}
