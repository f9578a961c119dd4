package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"ingero/internal/store"
)

// Errors of reading.
var (
	// ErrNoDatabase says that there is no file at the path.
	ErrNoDatabase = errors.New("no database")
	// ErrLost says that the SQLite file is gone or damaged, and that there are
	// recordings from which most of it can be made anew.
	ErrLost = errors.New("the recordings are there: ingero db repair makes the rest anew from them")
	// ErrNoSession says that the database has no such session, or none at all.
	ErrNoSession = errors.New("no session")
	// ErrNoCalls says that the calls of the session are not kept any more.
	ErrNoCalls = errors.New("the calls of the session are not kept any more")
)

// Reader reads a database. Its methods may be called from any goroutine.
type Reader struct {
	path  string
	db    *sql.DB
	temp  string      // directory of a copy, "" when there is none
	files store.Files // the segments

	slot    chan struct{}  // of the one statement that runs
	running sync.WaitGroup // statements, those too whose caller has gone

	accounts accountCache
}

// copyName is the name of a copy in its directory.
const copyName = "copy.db"

// Open opens the database at path for reading. It returns an error that wraps
// [ErrNoDatabase] when there is none, [store.ErrNotDatabase] when the file is
// something else; and [ErrLost], too, where there are recordings.
func Open(path string) (*Reader, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	switch s, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, orLost(path, fmt.Errorf("%w at %s", ErrNoDatabase, path))
	case err == nil && !s.Mode().IsRegular(): // who opens a pipe waits for its other end
		return nil, fmt.Errorf("%s: %w: it is not a file", path, store.ErrNotDatabase)
	}
	r := &Reader{path: path, slot: make(chan struct{}, 1)}
	r.files = files{r, store.Dir(store.LogDir(path))}
	err = r.open(path)
	if store.NeedsWrite(err) || errors.Is(err, errOld) {
		err = r.openCopy()
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

// orLost adds to an error about a SQLite file that there are recordings, if so.
func orLost(path string, err error) error {
	segs, listed := store.Segments(store.Dir(store.LogDir(path)))
	if listed != nil || len(segs) == 0 {
		return err
	}
	return fmt.Errorf("%w; %w", err, ErrLost)
}

// read puts into words what is wrong with the file.
func (r *Reader) read(err error) error {
	if store.Damaged(err) {
		return orLost(r.path, fmt.Errorf("%s is damaged: %w", r.path, err))
	}
	return err
}

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
	if err == nil && version < store.Schema() {
		err = errOld
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	r.db = db
	return nil
}

// errEmpty says that nothing was ever written to the file, or all of it is lost.
var errEmpty = fmt.Errorf("%w: it is empty", store.ErrNotDatabase)

// errOld says that an older ingero wrote the file.
var errOld = errors.New("the schema is an old one")

// openCopy opens a copy of the database, which may be written to: a reader that
// finds the write-ahead log of a killed writer must make its index anew, and one that
// finds an old schema brings it up to date.
func (r *Reader) openCopy() (err error) {
	if r.temp, err = os.MkdirTemp("", "ingero-read-"); err != nil {
		return err
	}
	to := filepath.Join(r.temp, copyName)
	for _, suffix := range []string{"", "-wal"} {
		err := copyFile(to+suffix, r.path+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	if err := store.Migrate(to); err != nil {
		return err
	}
	return r.open(to)
}

func copyFile(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// Close closes the database, once the statements in it have ended: cancel them
// first. It is idempotent.
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

// Path returns the database's file.
func (r *Reader) Path() string { return r.path }

// Size returns the bytes of all files of the database.
func (r *Reader) Size() int64 { return Size(r.path) }

// Size returns the bytes of all files of the database at path, 0 when there is
// none.
func Size(path string) int64 {
	var n int64
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if s, err := os.Stat(path + suffix); err == nil {
			n += s.Size()
		}
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

// rows runs a query and scans each row.
func (r *Reader) rows(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	defer func() { err = r.read(err) }()
	rows, err := r.db.QueryContext(ctx, query, args...)
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
