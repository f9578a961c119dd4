package retention

import (
	"database/sql"
	"errors"
	"math"
	"time"

	"ingero/internal/stats"
)

const (
	rowsShare   = 2   // divisor of the limit: the SQLite file's part before the oldest rows go
	rollupShare = 10  // divisor of the limit: the SQLite file's part before fine rollups go
	trimRows    = 512 // approximate number of rollups deleted at a time
)

// Rows deletes rows of a database's SQLite file, while a session is recorded to it.
type Rows struct {
	Bound    int64               // limit of all files in bytes; 0: none
	FileSize int64               // of the SQLite file in bytes, after the pending checkpoint
	Used     int64               // of FileSize: bytes of pages with rows
	Kept     [len(Rollups)]int64 // start of the session's remaining rollups, by tier, in Unix ns
	db       *sql.DB
	session  int64         // number of the recorded session
	swept    time.Time     // last removal of expired rows
	edge     int64         // rows from before this are deleted; 0: unknown
	passed   int64         // last session of the last batch; 0: the next is the first
	others   []sessionTier // of the other sessions
	first    int64         // first session with deletable rows, as of looked
	looked   time.Time     // last search for it
}

// NewRows returns the Rows of a recording of a session that has all its rollups.
func NewRows(db *sql.DB, session int64) *Rows {
	r := &Rows{db: db, session: session}
	for t := range r.Kept {
		r.Kept[t] = math.MinInt64
	}
	return r
}

// sessionTier is a tier of this or another session.
type sessionTier struct {
	session      int64
	seconds      int64
	kept, closed int64
	done         bool // a coarser tier covers no rollups
}

// Trim deletes rollups that a coarser tier covers: those that exceed their tier's retention time,
// and, if the SQLite file exceeds its part of the limit, the oldest of the finest tier. If that is
// far from enough, it forgets the oldest rows. It deletes few rows at a time, since deletions go
// through the write-ahead log. Call it after each tick.
func (r *Rows) Trim(now time.Time) error {
	if err := r.measure(); err != nil {
		return err
	}
	if r.Full() {
		if err := r.forget(now); err != nil {
			return err
		}
	}
	over, due := r.Bound > 0 && r.Used > r.Bound/rollupShare, now.Sub(r.swept) >= time.Minute
	if !over && !due {
		return nil
	}
	b, err := r.nextBatch()
	if err != nil {
		return err
	}
	if due {
		r.swept = now
		if err := errors.Join(r.sweepHost(b, now), r.sweepLosses(b, now), r.sweepAccounts(b, now)); err != nil {
			return err
		}
	}
	if err := r.sweepCounted(b, now, over); err != nil {
		return err
	}
	return r.trimRollups(b, now, over)
}

// trimRollups deletes rollups that a coarser tier covers: expired ones of a batch of sessions or, if over
// is set, the oldest of the finest tier.
func (r *Rows) trimRollups(b batch, now time.Time, over bool) (err error) {
	if r.others == nil { // they do not change while this process has the database
		if r.others, err = r.tiers("session <> ?"); err != nil {
			return err
		}
	}
	own, err := r.tiers("session = ?")
	if err != nil {
		return err
	}
	tries := 0
	for t := range Rollups[:len(Rollups)-1] {
		for _, all := range [...][]sessionTier{r.others, own} {
			for i := range all[:max(len(all)-1, 0)] {
				fine, coarse := &all[i], &all[i+1]
				if fine.done || tierOf(fine.seconds) != t || coarse.session != fine.session || !over && !b.has(fine.session, r.session) {
					continue
				}
				edge := coarse.closed
				if keep := Rollups[t].Keep; keep > 0 && !over {
					edge = min(edge, now.Add(-keep).UnixNano())
				}
				removed, err := r.cut(fine, edge, coarse.seconds*int64(time.Second))
				fine.done = over && !removed && err == nil
				if tries++; err != nil || removed && over || tries == batchSessions*len(Rollups) {
					return err
				}
			}
		}
	}
	return nil
}

// tiers returns the tiers of the recorded session or of the others, each session's from fine to coarse.
func (r *Rows) tiers(which string) (all []sessionTier, err error) {
	rows, err := r.db.Query("SELECT session, seconds, kept_ns, closed_ns FROM tiers WHERE "+which+" ORDER BY session, seconds", r.session)
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
	for i := range Rollups {
		if Rollups[i].Seconds() == seconds {
			return i
		}
	}
	return len(Rollups) - 1
}

// Full reports whether the rows exceed their part of the limit.
func (r *Rows) Full() bool { return r.Bound > 0 && r.Used > r.Bound/rowsShare }

// measure updates Used and FileSize.
func (r *Rows) measure() error {
	return r.db.QueryRow("SELECT (page_count - freelist_count) * page_size, page_count * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&r.Used, &r.FileSize)
}

// cut deletes the first rollups of a tier, of windows before edge, and reports whether there were
// any. step is the length of the next tier, each of whose windows keeps all of its rollups or none.
func (r *Rows) cut(t *sessionTier, edge, step int64) (bool, error) {
	var first, upTo sql.NullInt64
	err := r.db.QueryRow(`SELECT min(start_ns), max(start_ns) FROM (SELECT start_ns FROM rollups
		WHERE session = ? AND seconds = ? AND start_ns < ? ORDER BY start_ns LIMIT ?)`, t.session, t.seconds, edge, trimRows).Scan(&first, &upTo)
	if err != nil || !first.Valid {
		return false, err
	}
	edge = min(edge, max(stats.Floor(upTo.Int64, step), stats.Floor(first.Int64, step)+step))
	tx, err := r.db.Begin()
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
	if t.session == r.session {
		kept := &r.Kept[tierOf(t.seconds)]
		*kept = max(*kept, edge)
	}
	return true, nil
}
