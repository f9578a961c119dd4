package query

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"ingero/internal/stats"
	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/maintain"
	"ingero/internal/store/segment"
	"ingero/internal/wire"
	"ingero/pkg/events"
)

// VerifyOptions select what to compare, and how to report progress.
type VerifyOptions struct {
	Full  bool // all seconds, not a sample
	Calls func(n uint64)
}

// sample is how many seconds of a session are compared.
const sample = 16

// Verify reads the whole database at path: each frame of each segment, and the SQLite file, and
// compares sums with their calls. Damage is not an error. If the SQLite file is unreadable, Verify
// still checks the segments.
func Verify(ctx context.Context, path string, o VerifyOptions) (_ *wire.Verified, err error) {
	recording := store.Recording(path)
	r, unreadable := Open(ctx, path)
	var room *RoomError
	if errors.As(unreadable, &room) || unreadable != nil && ctx.Err() != nil {
		return nil, unreadable // the database may be sound
	}
	var files log.Files = log.Dir(store.LogDir(path))
	if unreadable == nil {
		defer func() { err = errors.Join(err, r.Close()) }()
		files = r.files
	}
	checked, err := maintain.Verify(ctx, files, o.Calls)
	if err != nil {
		return nil, err
	}
	v := &checked.Verified
	if v.Recording = recording; recording {
		v.Leftovers = nil // in use by the writer
	}
	if unreadable != nil {
		if v.Segments == 0 { // it may be anything
			return nil, unreadable
		}
		harm(v, path, unreadable.Error(), -1)
		return v, nil
	}
	sound, err := r.integrity(ctx, v)
	if err != nil || !sound {
		return v, err
	}
	sessions, err := r.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.lacking(v, sessions); err != nil {
		return nil, err
	}
	for i := range sessions {
		s := &sessions[i]
		if s.Pruned {
			continue
		}
		if checked.Broken[s.ID] {
			v.Unchecked = append(v.Unchecked, s.ID)
			continue
		}
		if err := r.compare(ctx, s, &o, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// harm adds damage of a whole file.
func harm(v *wire.Verified, path, what string, calls int64) {
	v.Damage = append(v.Damage, wire.Damage{File: filepath.Base(path), Calls: calls, What: what})
}

// integrity runs SQLite's check. sound reports whether the rows can be queried.
func (r *Reader) integrity(ctx context.Context, v *wire.Verified) (sound bool, err error) {
	sound = true
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil || text == "ok" {
			return err
		}
		sound = false
		harm(v, r.path, text, 0)
		return nil
	}, "PRAGMA integrity_check(20)")
	if err != nil {
		if ctx.Err() != nil {
			return false, err
		}
		harm(v, r.path, err.Error(), 0)
		return false, nil
	}
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var table, parent string
		var row, key sql.NullInt64
		err := rows.Scan(&table, &row, &parent, &key)
		harm(v, r.path, fmt.Sprintf("a row of table %s refers to a missing row of %s", table, parent), 0)
		return err
	}, "SELECT * FROM pragma_foreign_key_check LIMIT 20")
	return sound, err
}

// lacking finds sessions that have segments and no rows.
func (r *Reader) lacking(v *wire.Verified, sessions []Session) error {
	known := map[string]bool{}
	for i := range sessions {
		known[sessions[i].ID] = true
	}
	segs, err := segment.List(r.files)
	for _, s := range segs {
		if !known[s.Session] {
			known[s.Session] = true
			harm(v, r.path, fmt.Sprintf("it lacks session %s, which has segments", s.Session), 0)
		}
	}
	return err
}

// maxReorder bounds how far a log's calls may be out of order by their ends.
const maxReorder = 5 * time.Second

// compare compares rollups of whole seconds with their calls.
func (r *Reader) compare(ctx context.Context, s *Session, o *VerifyOptions, v *wire.Verified) error {
	var from sql.NullInt64
	err := r.db.QueryRowContext(ctx, "SELECT kept_ns FROM tiers WHERE session = ? AND seconds = 1", s.id).Scan(&from)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.Cut { // missing calls precede the first existing one
		first, ok, err := r.firstCall(ctx, s)
		if err != nil || !ok {
			return err
		}
		from.Int64 = max(from.Int64, stats.Floor(first+int64(maxReorder), int64(time.Second)))
	}
	var seconds []int64
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var at int64
		err := rows.Scan(&at)
		seconds = append(seconds, at)
		return err
	}, "SELECT DISTINCT start_ns FROM rollups WHERE session = ? AND seconds = 1 AND start_ns >= ? ORDER BY 1", s.id, from.Int64)
	if err != nil {
		return err
	}
	step := 1
	if !o.Full {
		step = max(len(seconds)/sample, 1)
	}
	for i := 0; i < len(seconds); {
		n := 1
		for o.Full && i+n < len(seconds) && n < 60 && seconds[i+n]-seconds[i] < int64(time.Minute) {
			n++
		}
		if err := r.compareSeconds(ctx, s, seconds[i], seconds[i+n-1]+int64(time.Second), v); err != nil {
			return err
		}
		v.Seconds += n
		i += max(n, step)
	}
	return nil
}

// firstCall returns the end of the first existing call.
func (r *Reader) firstCall(ctx context.Context, s *Session) (at int64, ok bool, err error) {
	_, err = r.scan(ctx, s, Filter{}, 0, func(c *events.Call, _ uint64) bool {
		at, ok = c.End(), true
		return false
	})
	return at, ok, err
}

// secondKey identifies a rollup of the finest tier in its session.
type secondKey struct {
	at  int64
	pid uint32
	op  events.Op
}

// storedSeconds returns the sums of [from, to), and how many calls are in them; no sums if they
// were deleted meanwhile.
func (r *Reader) storedSeconds(ctx context.Context, s *Session, from, to int64) (stored map[secondKey]*store.Sum, rolled uint64, err error) {
	tx, err := r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // a consistent state
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = tx.Rollback() }()
	var kept sql.NullInt64
	err = tx.QueryRowContext(ctx, "SELECT rolled, (SELECT kept_ns FROM tiers WHERE session = id AND seconds = 1) FROM sessions WHERE id = ?", s.id).Scan(&rolled, &kept)
	if err != nil || from < kept.Int64 {
		return nil, 0, err
	}
	stored = map[secondKey]*store.Sum{}
	err = eachRow(ctx, tx, func(rows *sql.Rows) error {
		var k secondKey
		sum := &store.Sum{}
		err := store.ScanSum(rows.Scan, sum, &k.at, &k.pid, &k.op)
		stored[k] = sum
		return err
	}, "SELECT start_ns, pid, op, "+store.RollupColumns+" FROM rollups WHERE session = ? AND seconds = 1 AND start_ns >= ? AND start_ns < ?", s.id, from, to)
	return stored, rolled, err
}

// compareSeconds compares the seconds of [from, to).
func (r *Reader) compareSeconds(ctx context.Context, s *Session, from, to int64, v *wire.Verified) error {
	stored, rolled, err := r.storedSeconds(ctx, s, from, to)
	if err != nil || stored == nil {
		return err
	}
	counted := map[secondKey]*store.Sum{}
	_, err = r.scan(ctx, s, Filter{From: unixTime(from), To: unixTime(to)}, 0, func(c *events.Call, n uint64) bool {
		if n < rolled {
			k := secondKey{stats.Floor(c.Start, int64(time.Second)), c.PID, c.Op}
			if counted[k] == nil {
				counted[k] = &store.Sum{}
			}
			counted[k].Add(c)
		}
		return true
	})
	if err != nil {
		return err
	}
	wrong := map[int64]int{}
	for k, sum := range counted {
		if !sameSum(sum, stored[k]) {
			wrong[k.at]++
		}
		delete(stored, k)
	}
	for k := range stored {
		wrong[k.at]++
	}
	if len(wrong) > 0 && v.Recording { // calls may have been pruned since
		segs, err := segment.OfSession(r.files, s.ID)
		if err != nil || len(segs) == 0 || segs[0].Seq != s.segs[0].Seq {
			return err
		}
	}
	for second, n := range wrong {
		harm(v, r.path, fmt.Sprintf("%d sums of session %s for the second from %s differ from its calls", n, s.ID, unixTime(second).UTC().Format(time.RFC3339)), 0)
	}
	return nil
}

func sameSum(a, b *store.Sum) bool {
	return b != nil && a.Counts == b.Counts && a.Thinned == b.Thinned && sameSketch(&a.Dur, &b.Dur)
}

func sameSketch(a, b *stats.Sketch) bool {
	x, err1 := a.AppendBinary(nil)
	y, err2 := b.AppendBinary(nil)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}
