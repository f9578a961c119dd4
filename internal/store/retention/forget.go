package retention

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A tick forgets 1/forgetPart of the recorded time, and at least forgetLeast: each deletion goes
// through the write-ahead log, which needs room. Rows of the last forgetNot stay.
const (
	forgetPart  = 4096
	forgetLeast = 2 * time.Second
	forgetNot   = time.Minute
)

// forgotten lists the tables whose rows are deleted, in that order, and the condition for the rows
// of session ?1 from before ?2. If it is empty, rows of processes that had ended then are deleted.
// Other tables stay: they describe the recording, who lost what, or have their own bound. If lost
// is set, rows of processes with losses stay, since they name the victim.
//
// When a pid is reused, the tables that have no condition and no since lose the earlier process's
// rows.
var forgotten = [...]struct {
	table, before string
	lost, since   bool
}{
	{table: "accounts", before: among(Accounts[:]) + "end_ns < ?2"},
	{table: "counted", before: among(Counted[:]) + "end_ns < ?2"},
	{table: "rollups", before: among(Rollups[:]) + "start_ns < ?2"},
	{table: "memory", before: "time_ns < ?2"}, {table: "snapshots", before: "time_ns < ?2"},
	{table: "gpu_states", before: "time_ns < ?2"}, {table: "inference", before: "time_ns < ?2"}, {table: "engine_steps", before: "to_ns < ?2"}, {table: "xids", before: "time_ns < ?2"},
	{table: "host_sums", before: "time_ns < ?2"},
	{table: "notable", before: "number < coalesce((SELECT number FROM notable WHERE session = ?1 AND start_ns >= ?2 ORDER BY number LIMIT 1), 1 << 62)"}, // by key: ordered by end
	{table: "labels", before: "to_ns < ?2"},
	{table: "chains", before: "to_ns < ?2"}, {table: "episodes", before: "to_ns < ?2"},
	{table: "ops"}, {table: "gaps"}, {table: "ledgers"}, {table: "held"}, {table: "streams"}, {table: "graphs"}, {table: "comms"},
	{table: "copies"}, {table: "errors"}, {table: "functions", since: true}, {table: "devices", lost: true},
	{table: "processes", before: "ended_ns < ?2", lost: true},
}

// among returns the condition that a row has one of the lengths, which such tables are ordered by.
func among(lengths []Tier) string {
	var all []string
	for _, t := range lengths {
		all = append(all, fmt.Sprint(t.Seconds()))
	}
	return "seconds IN (" + strings.Join(all, ", ") + ") AND "
}

// recordingTables are tables whose rows belong to no single process. They are deleted with a
// recording's last rows of the tables above. Their number is bounded.
var recordingTables = [...]string{"stacks", "frames", "names"}

// remembered selects the sessions with deletable rows, and the time from which these start. All
// earlier rows are gone. Only forget moves the edge of the coarsest rollups.
var remembered = fmt.Sprintf(`(SELECT id, updated_ns, max(started_ns, coalesce(kept_ns, started_ns)) AS first_ns
	FROM sessions LEFT JOIN tiers ON session = id AND seconds = %d
	WHERE coalesce(kept_ns <= updated_ns, EXISTS (SELECT 1 FROM ops WHERE session = id)))`, Rollups[len(Rollups)-1].Seconds())

// forget deletes the oldest rows of all recordings, a few at a time.
func (r *Rows) forget(now time.Time) error {
	if now.Sub(r.looked) >= time.Minute { // earlier sessions keep their row, and never get others again
		if err := r.db.QueryRow("SELECT coalesce(min(id), 0) FROM " + remembered).Scan(&r.first); err != nil {
			return err
		}
		r.looked = now
	}
	var oldest, long int64 // start, ignoring the time between recordings; total length
	err := r.db.QueryRow("SELECT coalesce(min(first_ns), 0), coalesce(sum(max(updated_ns - max(first_ns, ?), 0)), 0) FROM "+remembered+" WHERE id >= ?", r.edge, r.first).Scan(&oldest, &long)
	if err != nil {
		return err
	}
	from := max(r.edge, oldest)
	step := max(long/forgetPart, int64(forgetLeast))
	edge := min(from+step, now.Add(-forgetNot).UnixNano())
	if edge <= from {
		return nil
	}
	sessions, err := r.until(edge)
	if err != nil {
		return err
	}
	tx, err := r.db.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, s := range sessions {
		if err := s.forget(tx, edge); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	r.edge = edge
	for t := range r.Kept {
		r.Kept[t] = max(r.Kept[t], edge)
	}
	return nil
}

// aSession is a session to delete rows from: all of them, if it had ended before the edge.
type aSession struct {
	id    int64
	whole bool
}

// until returns the sessions that have rows from before edge.
func (r *Rows) until(edge int64) (all []aSession, err error) {
	rows, err := r.db.Query("SELECT id, id <> ?1 AND updated_ns < ?2 FROM "+remembered+" WHERE id >= ?3 AND first_ns < ?2", r.session, edge, r.first)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s aSession
		if err := rows.Scan(&s.id, &s.whole); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

func (s aSession) forget(tx *sql.Tx, edge int64) error {
	for _, f := range forgotten {
		q, args := "DELETE FROM "+f.table+" WHERE session = ?1", []any{s.id, edge}
		switch {
		case s.whole:
			args = args[:1]
		case f.before != "":
			q += " AND " + f.before
		default:
			q += " AND pid IN (SELECT pid FROM processes WHERE session = ?1 AND ended_ns < ?2)"
		}
		if f.lost {
			q += " AND pid NOT IN (SELECT pid FROM losses WHERE session = ?1)"
		}
		if _, err := tx.Exec(q, args...); err != nil {
			return err
		}
	}
	if _, err := tx.Exec("UPDATE tiers SET kept_ns = max(kept_ns, ?2) WHERE session = ?1", s.id, edge); err != nil || !s.whole {
		return err
	}
	for _, table := range recordingTables {
		if _, err := tx.Exec("DELETE FROM "+table+" WHERE session = ?", s.id); err != nil {
			return err
		}
	}
	return nil
}

// sums are the forgotten tables whose rows sum the calls of all processes with one pid while ticks
// list the first of these processes.
var sums = []string{"ops", "gaps"}

// Reused deletes a session's rows of earlier processes whose pids are reused. Of sums, it deletes
// only those of the pids in anew, whose ticks begin with the later process.
func Reused(tx *sql.Tx, session int64, pids, anew map[uint32]bool) error {
	for _, f := range forgotten {
		reused := pids
		if f.before != "" || f.since {
			continue
		} else if slices.Contains(sums, f.table) {
			reused = anew
		}
		if len(reused) == 0 {
			continue
		}
		list, err := json.Marshal(slices.Collect(maps.Keys(reused)))
		if err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM "+f.table+" WHERE session = ? AND pid IN (SELECT value FROM json_each(?))", session, string(list)); err != nil {
			return err
		}
	}
	return nil
}
