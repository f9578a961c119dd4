package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Removal says what to remove of a database: either what is older than Before, or what
// is too much for MaxBytes, or a Session.
type Removal struct {
	Path     string
	Owner    *Owner    // whose files they are; nil: this process's user
	Before   time.Time // segments that were written last before this
	MaxBytes int64     // the oldest segments go until all files together take no more
	Session  string    // the ID of a recording, which goes with its rows
	// CallsOnly keeps the rows of Session.
	CallsOnly bool
	DryRun    bool // removes nothing, and says what would be
}

// Removed says what was removed.
type Removed struct {
	Segments []string `json:"segments"`
	Bytes    int64    `json:"bytes"`    // of these
	Sessions []string `json:"sessions"` // of which at least a part was
	Rows     bool     `json:"rows"`     // those of the session too
	Before   int64    `json:"before_bytes"`
	After    int64    `json:"after_bytes"`
	// Vacuumed says that the SQLite file gave back what it did not need.
	Vacuumed bool `json:"vacuumed"`
}

// Remove removes recordings, or calls of them. What calls sum to stays, but for that of
// a whole session that is removed. It returns a [HeldError] when a process records,
// and an error that wraps [fs.ErrNotExist] when there is no such session.
func Remove(ctx context.Context, o Removal) (_ *Removed, err error) {
	if o.DryRun {
		if Recording(o.Path) {
			return nil, &HeldError{Path: o.Path}
		}
		dir, err := os.Open(LogDir(o.Path))
		if errors.Is(err, fs.ErrNotExist) {
			return &Removed{}, nil
		}
		if err != nil {
			return nil, err
		}
		db := &DB{o: Options{Path: o.Path, Now: time.Now}, dir: dir}
		defer func() { err = errors.Join(err, db.release()) }()
		return db.remove(ctx, &o)
	}
	db := &DB{o: Options{Path: o.Path, Owner: o.Owner, Now: time.Now}}
	defer func() { err = errors.Join(inWords(o.Path, err), db.release()) }()
	p := db.places()
	if err := db.hold(p); err != nil {
		return nil, err
	}
	if err := db.openMain(p); err != nil {
		return nil, err
	}
	return db.remove(ctx, &o)
}

// remove does what Remove does, or says what it would.
func (db *DB) remove(ctx context.Context, o *Removal) (*Removed, error) {
	if err := db.list(); err != nil {
		return nil, err
	}
	r := &Removed{Before: db.atRest()}
	if !o.DryRun {
		r.Vacuumed = db.vacuum(ctx) // before calls must make room for what is free
	}
	left := db.atRest()
	if o.Session != "" && !slices.ContainsFunc(db.kept, func(k keptSegment) bool { return k.Session == o.Session }) && o.CallsOnly {
		return nil, fmt.Errorf("calls of session %s: %w", o.Session, fs.ErrNotExist)
	}
	for _, k := range slices.Clone(db.kept) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		switch {
		case o.Session != "" && k.Session != o.Session,
			!o.Before.IsZero() && !k.last.Before(o.Before),
			o.MaxBytes > 0 && left <= o.MaxBytes:
			continue
		}
		if !o.DryRun {
			if err := db.unlink(k.Name); err != nil {
				return r, err
			}
		}
		left -= k.Bytes
		r.Segments, r.Bytes = append(r.Segments, k.Name), r.Bytes+k.Bytes
		if !slices.Contains(r.Sessions, k.Session) {
			r.Sessions = append(r.Sessions, k.Session)
		}
	}
	if r.Rows = o.Session != "" && !o.CallsOnly; r.Rows && !slices.Contains(r.Sessions, o.Session) {
		r.Sessions = append(r.Sessions, o.Session)
	}
	if r.After = left; o.DryRun {
		return r, nil
	}
	if r.Rows {
		if _, err := db.sql.ExecContext(ctx, "DELETE FROM sessions WHERE uid = ?", o.Session); err != nil { // and all that refers to it
			return r, err
		}
	}
	r.Vacuumed = db.vacuum(ctx) || r.Vacuumed
	db.settle()
	db.kept = nil
	err := db.list()
	r.After = db.atRest()
	return r, err
}

// atRest is what all files take when nobody has the database open: then there is no
// write-ahead log.
func (db *DB) atRest() (n int64) {
	for i := range db.kept {
		n += db.kept[i].Bytes
	}
	return n + fileSize(db.o.Path)
}

// vacuum lets the SQLite file give back pages that hold nothing. While somebody reads
// it, it cannot; nor without as much room again on the disk.
func (db *DB) vacuum(ctx context.Context) bool {
	_, _ = db.sql.ExecContext(ctx, "PRAGMA wal_checkpoint(truncate)") // of a writer that was killed
	var unused int64
	if err := db.sql.QueryRowContext(ctx, "SELECT freelist_count FROM pragma_freelist_count").Scan(&unused); err != nil || unused == 0 {
		return false
	}
	_, err := db.sql.ExecContext(ctx, "VACUUM")
	_, checkpointed := db.sql.ExecContext(ctx, "PRAGMA wal_checkpoint(truncate)")
	return errors.Join(err, checkpointed) == nil
}
