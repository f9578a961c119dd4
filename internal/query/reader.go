package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
)

// Errors of reading.
var (
	// ErrNoDatabase means that there is no file at the path.
	ErrNoDatabase = errors.New("no database")
	// ErrLost means that the SQLite file is gone or damaged, and that most of it can be restored
	// from recordings.
	ErrLost = errors.New("the recordings still exist: run ingero db repair to rebuild the SQLite file from them")
	// ErrNoSession means that the database has no such session, or none at all.
	ErrNoSession = errors.New("no session")
	// ErrNoCalls means that the session's calls were deleted.
	ErrNoCalls = errors.New("the calls of the session were deleted")
)

// Reader reads a database. It is safe for concurrent use.
type Reader struct {
	path  string
	db    *sql.DB
	temp  string    // directory of a copy, "": none
	live  bool      // a process was recording when the copy was made; a later one is not in the copy
	asOf  time.Time // modification time of the copied file
	files log.Files // the segments

	slot    chan struct{}  // slot of the running statement of a user
	running sync.WaitGroup // statements, including those whose caller has returned

	accounts accountCache
}

// copyName is the name of a copy in its directory.
const copyName = "copy.db"

// Open opens the database at path for reading. It returns an error that wraps [ErrNoDatabase] if
// there is none, [store.ErrNotDatabase] if the file is something else, and also [ErrLost] if there
// are recordings. It may have to copy the database: the context ends that, and a [RoomError] means that
// there is no room. The Reader does not depend on the context.
func Open(ctx context.Context, path string) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	switch s, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, orLost(path, fmt.Errorf("%w at %s", ErrNoDatabase, path))
	case err == nil && !s.Mode().IsRegular(): // opening a pipe would block
		return nil, fmt.Errorf("%s: %w: it is not a regular file", path, store.ErrNotDatabase)
	}
	r := &Reader{path: path, slot: make(chan struct{}, 1)}
	r.files = files{r, log.Dir(store.LogDir(path))}
	err = r.open(path)
	if store.NeedsWrite(err) || errors.Is(err, errOld) {
		err = r.openCopy(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
		if store.Damaged(err) || errors.Is(err, errEmpty) {
			err = orLost(path, err)
		}
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// orLost adds [ErrLost] to an error about a SQLite file if there are recordings.
func orLost(path string, err error) error {
	segs, listed := segment.List(log.Dir(store.LogDir(path)))
	if listed != nil || len(segs) == 0 {
		return err
	}
	return fmt.Errorf("%w; %w", err, ErrLost)
}

// read describes what is wrong with the file.
func (r *Reader) read(err error) error {
	if store.Damaged(err) {
		return orLost(r.path, fmt.Errorf("%s is damaged: %w", r.path, err))
	}
	return err
}

// open opens the database in a file. If the error is errOld, the file is open.
func (r *Reader) open(path string) error {
	q := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(2000)", "query_only(on)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return err
	}
	version, err := store.SchemaVersion(db)
	if err == nil && version == 0 {
		err = errEmpty
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	r.db = db
	if version < store.Schema() {
		return errOld
	}
	return nil
}

// errEmpty means that the file was never written to, or lost everything.
var errEmpty = fmt.Errorf("%w: it is empty", store.ErrNotDatabase)

// errOld means that an older ingero wrote the file.
var errOld = errors.New("the schema is an old one")

// openCopy opens a writable copy of the database. A reader must rebuild the index of a killed
// writer's write-ahead log, and migrate an old schema.
func (r *Reader) openCopy(ctx context.Context) (err error) {
	defer func() {
		// A migration may write as much again, to its write-ahead log.
		if store.WriteFailed(err) && full(r.temp, fileSize(r.path)) {
			err = &RoomError{Dir: os.TempDir(), Err: err}
		}
	}()
	if r.temp, err = os.MkdirTemp("", "ingero-read-"); err != nil {
		return err
	}
	r.live, r.asOf = store.Recording(r.path), modified(r.path)
	to := filepath.Join(r.temp, copyName)
	if r.db == nil {
		err = copyFiles(ctx, to, r.path, copyFile)
	} else { // old: its recorder may be writing to it
		err = r.Snapshot(ctx, to)
		// A copy of the files has the intact parts, and says why a write failed. SQLite says that a disk is
		// full, too, where a damaged page refers to one beyond the largest possible.
		if err != nil && ctx.Err() == nil {
			err = errors.Join(os.RemoveAll(to+"-journal"), copyFiles(ctx, to, r.path, copyFile))
		}
		err = errors.Join(err, r.db.Close())
		r.db = nil
	}
	if err == nil {
		err = store.Migrate(to)
	}
	if err != nil {
		return err
	}
	return r.open(to)
}

// Close closes the database after the running statements have ended: cancel them first. It is
// idempotent.
func (r *Reader) Close() error {
	r.running.Wait()
	var errs []error
	if r.db != nil {
		errs = append(errs, r.db.Close())
	}
	if r.temp != "" {
		errs = append(errs, os.RemoveAll(r.temp))
	}
	return errors.Join(errs...)
}

// recording reports whether a process records what the reader reads.
func (r *Reader) recording() bool {
	return (r.temp == "" || r.live) && store.Recording(r.path)
}

// Stale reports whether the reader reads a copy of a database that is being changed or has changed.
func (r *Reader) Stale() bool {
	return r.temp != "" && (store.Recording(r.path) || !modified(r.path).Equal(r.asOf))
}

// modified returns the modification time of a file, zero if there is none.
func modified(path string) time.Time {
	s, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return s.ModTime()
}

// Path returns the path of the database file.
func (r *Reader) Path() string { return r.path }

// Size returns the size of all files of the database in bytes.
func (r *Reader) Size() int64 { return Size(r.path) }

// Size returns the size of all files of the database at path in bytes, 0 if there are none.
func Size(path string) int64 {
	var n int64
	for _, suffix := range []string{"", "-wal", "-shm"} {
		n += fileSize(path + suffix)
	}
	entries, err := os.ReadDir(store.LogDir(path))
	if err != nil {
		return n
	}
	for _, e := range entries {
		if s, err := e.Info(); err == nil {
			n += s.Size()
		}
	}
	return n
}

// fileSize returns the size of a file in bytes, 0 if there is none.
func fileSize(path string) int64 {
	s, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return s.Size()
}

// Select returns the rows of a statement over the tables of the file: nil, int64, float64, string and
// []byte values. It is for statements of this program. Unlike [Reader.SQL] it has no virtual tables and
// no limits, and does not wait for statements of users.
func (r *Reader) Select(ctx context.Context, text string, args ...any) (out [][]any, err error) {
	err = r.rows(ctx, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		row := make([]any, len(columns))
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		out = append(out, row)
		return rows.Scan(to...)
	}, text, args...)
	return out, err
}

// rows runs a query and scans each row.
func (r *Reader) rows(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	return r.read(eachRow(ctx, r.db, scan, query, args...))
}

// querier is a database, or a transaction or connection of one.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// eachRow runs a query and scans each row.
func eachRow(ctx context.Context, from querier, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
