package store

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"ingero/internal/store/segment"
	"ingero/internal/tick"
)

// rowsShare is the divisor of the database's limit that bounds the SQLite file's rows. Beyond that
// bound, the oldest rows are deleted, as calls are.
const rowsShare = 2

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
	{table: "accounts", before: among(accountTiers[:]) + "end_ns < ?2"},
	{table: "counted", before: among(countTiers[:]) + "end_ns < ?2"},
	{table: "rollups", before: among(tiers[:]) + "start_ns < ?2"},
	{table: "memory", before: "time_ns < ?2"}, {table: "snapshots", before: "time_ns < ?2"},
	{table: "gpu_states", before: "time_ns < ?2"}, {table: "xids", before: "time_ns < ?2"},
	{table: "host_sums", before: "time_ns < ?2"},
	{table: "notable", before: "number < coalesce((SELECT number FROM notable WHERE session = ?1 AND start_ns >= ?2 ORDER BY number LIMIT 1), 1 << 62)"}, // by key: ordered by end
	{table: "chains", before: "to_ns < ?2"}, {table: "episodes", before: "to_ns < ?2"},
	{table: "ops"}, {table: "gaps"}, {table: "ledgers"}, {table: "held"}, {table: "streams"}, {table: "graphs"}, {table: "comms"},
	{table: "copies"}, {table: "errors"}, {table: "functions", since: true}, {table: "devices", lost: true},
	{table: "processes", before: "ended_ns < ?2", lost: true},
}

// among returns the condition that a row has one of the lengths, which such tables are ordered by.
func among(lengths []tier) string {
	var all []string
	for _, t := range lengths {
		all = append(all, fmt.Sprint(t.seconds()))
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
	WHERE coalesce(kept_ns <= updated_ns, EXISTS (SELECT 1 FROM ops WHERE session = id)))`, tiers[len(tiers)-1].seconds())

// forget deletes the oldest rows of all recordings, a few at a time.
func (v *saver) forget(now time.Time) error {
	var oldest, long int64 // start, ignoring the time between recordings; total length
	err := v.db.QueryRow("SELECT coalesce(min(first_ns), 0), coalesce(sum(max(updated_ns - max(first_ns, ?), 0)), 0) FROM "+remembered, v.edge).Scan(&oldest, &long)
	if err != nil {
		return err
	}
	from := max(v.edge, oldest)
	step := max(long/forgetPart, int64(forgetLeast))
	edge := min(from+step, now.Add(-forgetNot).UnixNano())
	if edge <= from {
		return nil
	}
	sessions, err := v.until(edge)
	if err != nil {
		return err
	}
	tx, err := v.db.Begin()
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
	v.edge = edge
	for t := range tiers {
		v.rollup.kept[t] = max(v.rollup.kept[t], edge)
	}
	return nil
}

// aSession is a session to delete rows from: all of them, if it had ended before the edge.
type aSession struct {
	id    int64
	whole bool
}

// until returns the sessions that have rows from before edge.
func (v *saver) until(edge int64) (all []aSession, err error) {
	rows, err := v.db.Query("SELECT id, id <> ?1 AND updated_ns < ?2 FROM "+remembered+" WHERE first_ns < ?2", v.id, edge)
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

// rememberedMore is how many processes beyond those in ticks are kept in memory.
const rememberedMore = 1024

// disremember drops from memory the state of processes that ticks no longer list.
func (v *saver) disremember(t *tick.Tick) {
	if len(v.procs) <= len(t.Processes)+rememberedMore {
		return
	}
	pids := t.PIDs()
	maps.DeleteFunc(v.procs, func(pid uint32, _ segment.Process) bool { return !pids[pid] })
	maps.DeleteFunc(v.ops, func(k opID, _ savedOp) bool { return !pids[k.pid] })
	maps.DeleteFunc(v.gaps, func(pid uint32, g *savedGap) bool { return !pids[pid] && g.saved == g.Gap && g != v.last })
	maps.DeleteFunc(v.stated, func(k stateKey, _ any) bool { return k.pid != 0 && !pids[k.pid] })
}
