package store

import (
	"database/sql"
	"errors"
	"time"
)

// sessionTier is a tier of this or another session.
type sessionTier struct {
	session      int64
	seconds      int64
	kept, closed int64
}

// trim deletes rollups that a coarser tier covers: those that exceed their tier's retention time,
// and, if the SQLite file exceeds its part of bound bytes, the oldest of the finest tier. If that
// is far from enough, it forgets the oldest rows. It deletes few rows at a time, since deletions go
// through the write-ahead log.
func (v *saver) trim(now time.Time, bound int64) error {
	v.bound = bound
	used, err := v.used()
	if err != nil {
		return err
	}
	if bound > 0 && used > bound/rowsShare {
		if err := v.forget(now); err != nil {
			return err
		}
	}
	over := bound > 0 && used > bound/rollupShare
	if !over && now.Sub(v.swept) < time.Minute {
		return nil
	}
	v.swept = now
	if err := errors.Join(v.sweepHost(now), v.sweepLosses(now), v.sweepAccounts(now), v.sweepCounted(now, over)); err != nil {
		return err
	}
	all, err := v.tiers()
	if err != nil {
		return err
	}
	for t := range tiers[:len(tiers)-1] {
		for i := range all[:max(len(all)-1, 0)] {
			fine, coarse := &all[i], &all[i+1]
			if tierOf(fine.seconds) != t || coarse.session != fine.session {
				continue
			}
			edge := coarse.closed
			if keep := tiers[t].keep; keep > 0 && !over {
				edge = min(edge, now.Add(-keep).UnixNano())
			}
			removed, err := v.cut(fine, edge, coarse.seconds*int64(time.Second))
			if err != nil || removed && over {
				return err
			}
		}
	}
	return nil
}

// tiers returns the tiers of all sessions, each session's from fine to coarse.
func (v *saver) tiers() (all []sessionTier, err error) {
	rows, err := v.db.Query("SELECT session, seconds, kept_ns, closed_ns FROM tiers ORDER BY session, seconds")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var t sessionTier
		if err := rows.Scan(&t.session, &t.seconds, &t.kept, &t.closed); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, rows.Err()
}

func tierOf(seconds int64) int {
	for i := range tiers {
		if tiers[i].seconds() == seconds {
			return i
		}
	}
	return len(tiers) - 1
}

// used returns the bytes of the database's used pages, and stores the size of the file after a
// checkpoint of the write-ahead log.
func (v *saver) used() (n int64, err error) {
	err = v.db.QueryRow("SELECT (page_count - freelist_count) * page_size, page_count * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&n, &v.fileSize)
	return n, err
}

// trimRows is the approximate number of rollups deleted at a time.
const trimRows = 512

// cut deletes the first rollups of a tier, of windows before edge, and reports whether there were
// any. step is the length of the next tier, each of whose windows keeps all of its rollups or none.
func (v *saver) cut(t *sessionTier, edge, step int64) (bool, error) {
	var first, upTo sql.NullInt64
	err := v.db.QueryRow(`SELECT min(start_ns), max(start_ns) FROM (SELECT start_ns FROM rollups
		WHERE session = ? AND seconds = ? AND start_ns < ? ORDER BY start_ns LIMIT ?)`, t.session, t.seconds, edge, trimRows).Scan(&first, &upTo)
	if err != nil || !first.Valid {
		return false, err
	}
	edge = min(edge, max(floor(upTo.Int64, step), floor(first.Int64, step)+step))
	tx, err := v.db.Begin()
	if err != nil {
		return false, err
	}
	_, err = tx.Exec("DELETE FROM rollups WHERE session = ? AND seconds = ? AND start_ns < ?", t.session, t.seconds, edge)
	if err == nil {
		_, err = tx.Exec("UPDATE tiers SET kept_ns = max(kept_ns, ?) WHERE session = ? AND seconds = ?", edge, t.session, t.seconds)
	}
	if err != nil {
		return false, errors.Join(err, tx.Rollback())
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	if t.session == v.id {
		kept := &v.rollup.kept[tierOf(t.seconds)]
		*kept = max(*kept, edge)
	}
	return true, nil
}
