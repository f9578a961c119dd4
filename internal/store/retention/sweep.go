package retention

import (
	"errors"
	"fmt"
	"time"

	"ingero/internal/stats"
)

const (
	hostKept = 30 * 24 * time.Hour // how long rows of host_sums are kept
	lossFine = 30 * 24 * time.Hour // how long rows of a minute of losses are kept; then rows of an hour
)

// batchSessions is how many sessions a pass looks at. Later passes look at others.
const batchSessions = 256

// batch is a range of sessions.
type batch struct{ first, last int64 }

// nextBatch returns the sessions that follow those of the last batch, or the first ones.
func (r *Rows) nextBatch() (b batch, err error) {
	n := 0
	err = r.db.QueryRow("SELECT coalesce(min(id), 0), coalesce(max(id), 0), count(*) FROM (SELECT id FROM sessions WHERE id > ? ORDER BY id LIMIT ?)",
		r.passed, batchSessions).Scan(&b.first, &b.last, &n)
	if r.passed = b.last; n < batchSessions {
		r.passed = 0
	}
	return b, err
}

// has reports whether a session is in the batch, or is the recorded one.
func (b batch) has(session, recorded int64) bool {
	return session >= b.first && session <= b.last || session == recorded
}

// in selects the batch's rows, by the tables' keys, which begin with the session. Without it, SQLite
// would read whole tables.
func (b batch) in() string {
	return fmt.Sprintf("session IN (SELECT id FROM sessions WHERE id BETWEEN %d AND %d) AND ", b.first, b.last)
}

// sweepHost deletes expired rows.
func (r *Rows) sweepHost(b batch, now time.Time) error {
	_, err := r.db.Exec("DELETE FROM host_sums WHERE "+b.in()+"time_ns < ?", now.Add(-hostKept).UnixNano())
	return err
}

// sweepLosses merges old minutes into hours.
func (r *Rows) sweepLosses(b batch, now time.Time) error {
	hour := int64(time.Hour)
	edge := stats.Floor(now.Add(-lossFine).UnixNano(), hour)
	tx, err := r.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.Exec(`INSERT INTO losses SELECT session, 3600, start_ns - start_ns % ?1, chain, culprit, min(rule), min(pid), sum(lost_ns) FROM losses
		WHERE `+b.in()+`seconds = 60 AND start_ns < ?2 GROUP BY session, start_ns - start_ns % ?1, chain, culprit
		ON CONFLICT DO UPDATE SET lost_ns = lost_ns + excluded.lost_ns`, hour, edge); err != nil {
		return err
	}
	if _, err := tx.Exec("DELETE FROM losses WHERE "+b.in()+"seconds = 60 AND start_ns < ?", edge); err != nil {
		return err
	}
	return tx.Commit()
}

// sweepAccounts deletes expired rows.
func (r *Rows) sweepAccounts(b batch, now time.Time) error {
	for _, tier := range Accounts {
		if _, err := r.db.Exec("DELETE FROM accounts WHERE "+b.in()+"seconds = ? AND end_ns < ?", tier.Seconds(), now.Add(-tier.Keep).UnixNano()); err != nil {
			return err
		}
	}
	return nil
}

// sweepCounted deletes expired rows that coarser rows cover. If over is set, it also deletes the
// oldest other rows that coarser ones cover, a few at a time.
func (r *Rows) sweepCounted(b batch, now time.Time, over bool) error {
	for i, fine := range Counted[:len(Counted)-1] {
		coarse := Counted[i+1]
		before, err := r.countedUpTo("SELECT id, (SELECT max(end_ns) FROM counted WHERE session = id AND seconds = ?1 AND end_ns < ?2) AS at FROM sessions WHERE id BETWEEN ?3 AND ?4 AND at IS NOT NULL",
			coarse.Seconds(), now.Add(-fine.Keep).UnixNano(), b.first, b.last)
		if err == nil && over {
			before, err = r.countedUpTo(`SELECT id, (SELECT min(end_ns) FROM counted WHERE session = id AND seconds = ?1
				AND end_ns >= (SELECT min(end_ns) FROM counted WHERE session = id AND seconds = ?2)) AS at FROM sessions WHERE id BETWEEN ?3 AND ?4 AND at IS NOT NULL`, coarse.Seconds(), fine.Seconds(), b.first, b.last)
		}
		if err != nil {
			return err
		}
		for session, at := range before {
			if _, err := r.db.Exec("DELETE FROM counted WHERE session = ? AND seconds = ? AND end_ns <= ?", session, fine.Seconds(), at); err != nil {
				return err
			}
		}
	}
	return nil
}

// countedUpTo returns the times that a statement selects, by session.
func (r *Rows) countedUpTo(text string, args ...any) (out map[int64]int64, err error) {
	rows, err := r.db.Query(text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = map[int64]int64{}
	for rows.Next() {
		var session, at int64
		if err := rows.Scan(&session, &at); err != nil {
			return nil, err
		}
		out[session] = at
	}
	return out, rows.Err()
}
