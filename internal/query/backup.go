package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"

	"ingero/internal/store/log"
	"ingero/internal/store/segment"
)

// Snapshot writes the SQLite file's state at one moment to path, which must be empty or missing. It
// does not stop writers, and includes no logs.
func (r *Reader) Snapshot(ctx context.Context, path string) (err error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// The database itself is open read-only. The authorizer that additionally forbids writing would
	// also forbid writing to the copy.
	if err := allowing(ctx, conn, func() error {
		_, err := conn.ExecContext(ctx, "VACUUM INTO ?", path)
		return err
	}); err != nil {
		return fmt.Errorf("copy %s to %s: %w", r.path, path, err)
	}
	return nil
}

func allowing(ctx context.Context, conn *sql.Conn, do func() error) error {
	if _, err := conn.ExecContext(ctx, "PRAGMA query_only = off"); err != nil {
		return err
	}
	err := do()
	_, again := conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA query_only = on")
	return errors.Join(err, again)
}

// Backup describes a backup.
type Backup struct {
	Files int   // files of recordings
	Bytes int64 // size of these
	Cut   int64 // bytes at the ends of logs after their last whole frame
}

// Backup writes the whole database to one file at path, which must be empty or missing. The file
// opens as a database. Backup does not stop recordings: counts are those of one moment, and the
// logs extend a little further.
func (r *Reader) Backup(ctx context.Context, path string) (_ *Backup, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := r.Snapshot(ctx, path); err != nil {
		return nil, err
	}
	q := url.Values{"_pragma": {"journal_mode(off)", "synchronous(off)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, packedTable); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	segs, err := segment.List(r.files)
	if err != nil {
		return nil, err
	}
	b := &Backup{}
	for i := range segs {
		err := r.pack(ctx, db, &segs[i], b)
		if errors.Is(err, fs.ErrNotExist) { // pruned since
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return b, nil
}

// pack copies a file into a backup.
func (r *Reader) pack(ctx context.Context, db *sql.DB, seg *segment.Info, b *Backup) (err error) {
	file, err := segment.OpenSegment(r.files, seg)
	if err != nil {
		return err
	}
	name := seg.Name
	defer func() { err = errors.Join(err, file.Close()) }()
	whole, err := log.CompleteBytes(file, file.Size())
	if err != nil {
		return err
	}
	b.Files, b.Bytes, b.Cut = b.Files+1, b.Bytes+whole, b.Cut+file.Size()-whole
	if _, err := db.ExecContext(ctx, "DELETE FROM files WHERE name = ?", name); err != nil { // from a backup of a backup
		return err
	}
	piece := make([]byte, min(pieceBytes, whole))
	for at := int64(0); at < whole; at += int64(len(piece)) {
		piece = piece[:min(pieceBytes, whole-at)]
		if n, err := file.ReadAt(piece, at); n < len(piece) {
			return fmt.Errorf("read %s at byte %d: %w", name, at, err)
		}
		if _, err := db.ExecContext(ctx, "INSERT INTO files VALUES (?, ?, ?)", name, at, piece); err != nil {
			return err
		}
	}
	return nil
}
