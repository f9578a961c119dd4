package query

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/wire"
)

// Info describes a database's content.
type Info struct {
	wire.Database
	// Sessions are ordered latest first.
	Sessions []Session
	// From is the start of the first kept call; zero if there is none.
	From time.Time
}

// Info describes the database. It reads segments' heads and indexes, and unsealed segments, but no
// other calls.
func (r *Reader) Info(ctx context.Context) (_ *Info, err error) {
	i := &Info{Database: wire.Database{Path: r.path, Recording: store.Recording(r.path), Bytes: r.Size()}}
	if i.Schema, err = store.SchemaVersion(r.db); err != nil {
		return nil, err
	}
	if i.SQLite, err = sizeOf(r.path); err != nil {
		return nil, err
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		n, err := sizeOf(r.path + suffix)
		if err != nil {
			return nil, err
		}
		i.WAL += n
	}
	if err := r.db.QueryRowContext(ctx, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&i.Unused); err != nil {
		return nil, err
	}
	if i.Sessions, err = r.Sessions(ctx); err != nil {
		return nil, err
	}
	if err := r.parts(ctx, i); err != nil {
		return nil, err
	}
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var t wire.RollupTier
		var from, to int64
		err := rows.Scan(&t.Seconds, &t.Rows, &from, &to)
		t.From, t.To = unixTime(from), unixTime(to).Add(time.Duration(t.Seconds)*time.Second)
		i.Tiers = append(i.Tiers, t)
		return err
	}, "SELECT seconds, count(*), min(start_ns), max(start_ns) FROM rollups GROUP BY seconds ORDER BY seconds")
	return i, err
}

func sizeOf(path string) (int64, error) {
	s, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return s.Size(), nil
}

// parts counts files and their calls.
func (r *Reader) parts(ctx context.Context, i *Info) error {
	segs, err := segment.List(r.files)
	if err != nil {
		return err
	}
	isSegment := map[string]bool{}
	var first int64
	for _, s := range segs {
		if err := ctx.Err(); err != nil {
			return err
		}
		isSegment[s.Name] = true
		part := &i.Hot
		if s.Sealed {
			part = &i.Sealed
		}
		part.Files, part.Bytes = part.Files+1, part.Bytes+s.Bytes
		n, from, err := segment.CountCalls(r.files, s)
		switch {
		case errors.Is(err, fs.ErrNotExist), segment.Unreadable(err):
			continue // verify reports it
		case err != nil:
			return err
		}
		if i.Calls += n; n > 0 && (first == 0 || from < first) {
			first = from
		}
	}
	if i.Calls > 0 {
		i.From = unixTime(first)
	}
	all, err := r.files.List()
	for _, f := range all {
		if !isSegment[f.Name] {
			i.Other.Files, i.Other.Bytes = i.Other.Files+1, i.Other.Bytes+f.Bytes
		}
	}
	return err
}
