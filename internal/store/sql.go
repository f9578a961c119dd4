package store

import (
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks a SQLite file as ingero's: "INGR".
const applicationID = 0x494e4752

// ErrNotDatabase means that a file is not a database of this ingero.
var ErrNotDatabase = errors.New("not a database of this ingero")

// OldError means that ingero 0.9 wrote the database, which must be converted. errors.Is matches it
// with [ErrNotDatabase].
type OldError struct{ Path string }

func (e *OldError) Error() string { return ErrNotDatabase.Error() + ": ingero 0.9 wrote it" }

// Unwrap returns [ErrNotDatabase].
func (e *OldError) Unwrap() error { return ErrNotDatabase }

// OldColumns are the columns of the table events that identify a database of 0.9.
var OldColumns = []string{"timestamp", "pid", "tid", "source", "op", "duration", "arg0", "arg1", "ret_code"}

// foreign returns an error that says whose database it is.
func foreign(db *sql.DB) error {
	var path string
	var found int
	for _, c := range OldColumns {
		n := 0
		if db.QueryRow("SELECT (SELECT file FROM pragma_database_list WHERE name = 'main'), count(*) FROM pragma_table_info('events') WHERE name = ?", c).Scan(&path, &n) == nil {
			found += n
		}
	}
	if found == len(OldColumns) {
		return &OldError{path}
	}
	return fmt.Errorf("%w: another program wrote it", ErrNotDatabase)
}

var errNoSQLite = fmt.Errorf("%w: it is not a SQLite file", ErrNotDatabase)

// FullError means that the recording stopped for lack of disk space. errors.Is matches it with
// [syscall.ENOSPC]. Earlier data is readable.
type FullError struct {
	Path string
	Err  error
}

func (e *FullError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the write's error.
func (e *FullError) Unwrap() error { return e.Err }

// Is matches [syscall.ENOSPC].
func (e *FullError) Is(target error) bool { return target == syscall.ENOSPC }

// inWords converts a write error that reports a full disk to a FullError.
func inWords(path string, err error) error {
	var known *FullError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case Full(err):
		return &FullError{path, err}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Full reports whether a write failed because the disk or the user's quota is full.
func Full(err error) bool {
	var lite *sqlite.Error
	if errors.As(err, &lite) && (lite.Code()&0xff == sqlite3.SQLITE_FULL || lite.Code() == sqlite3.SQLITE_IOERR_SHMSIZE) {
		return true
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// WriteFailed reports whether a write failed, for want of room or because of the disk.
func WriteFailed(err error) bool {
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() {
		case sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC, sqlite3.SQLITE_IOERR_TRUNCATE:
			return true
		}
	}
	return Full(err)
}

// SQLite's locks must outlive other uses of the file in this process. Without kernel support,
// SQLite falls back by itself.
func init() { _, _ = sqlite.OFDLocking(true) }

// openSQL opens the SQLite file for writing and migrates its schema, unless it has the first enough
// migrations.
func openSQL(path string, enough int, opened func() error) (_ *sql.DB, err error) {
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)", "foreign_keys(on)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	defer func() {
		if err != nil {
			err = errors.Join(inWords(path, err), db.Close())
		}
	}()
	version, err := SchemaVersion(db)
	if err != nil {
		return nil, err
	}
	if err := opened(); err != nil {
		return nil, err
	}
	for _, p := range []string{"journal_mode = wal", "synchronous = normal", "journal_size_limit = 4194304"} {
		if _, err := db.Exec("PRAGMA " + p); err != nil {
			return nil, err
		}
	}
	if version >= enough {
		return db, nil
	}
	return db, migrate(db, version)
}

// SchemaVersion returns the number of applied migrations. It refuses files that are not ours with
// an error that wraps [ErrNotDatabase], and changes nothing.
func SchemaVersion(db *sql.DB) (int, error) {
	var id, version, things int
	err := db.QueryRow("SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)").Scan(&id, &version, &things)
	var lite *sqlite.Error
	switch {
	case errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_NOTADB:
		return 0, errNoSQLite
	case err != nil:
		return 0, err
	case id != applicationID && things > 0:
		return 0, foreign(db)
	}
	known, err := migrationNames()
	if err != nil {
		return 0, err
	}
	if version > len(known) {
		return 0, fmt.Errorf("%w: a newer ingero wrote it (schema %d; this ingero supports %d)", ErrNotDatabase, version, len(known))
	}
	return version, nil
}

// Schema returns the number of migrations.
func Schema() int {
	names, err := migrationNames()
	if err != nil {
		return 0
	}
	return len(names)
}

// Migrate migrates the schema of the file at path, which must be unused.
func Migrate(path string) error {
	db, err := openSQL(path, Schema(), func() error { return nil })
	if err != nil {
		return err
	}
	return db.Close()
}

// migrationNames returns the migrations in order; the first is number 1.
func migrationNames() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("%s: want number %04d", name, i+1)
		}
	}
	return names, nil
}

func migrate(db *sql.DB, version int) error {
	names, err := migrationNames()
	if err != nil {
		return err
	}
	for i := version; i < len(names); i++ {
		text, err := migrations.ReadFile(names[i])
		if err != nil {
			return err
		}
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		_, err = tx.Exec(string(text) + fmt.Sprintf("\n; PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, i+1))
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", names[i], err), tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	return nil
}

// How long a writer waits for another's transaction. A tick must not hold up the session; the last
// tick may.
const (
	waitShort = "PRAGMA busy_timeout = 100"
	waitLong  = "PRAGMA busy_timeout = 5000"
)

// busy reports whether a write failed because of another process's transaction.
func busy(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_BUSY
}

// Damaged reports whether SQLite considers a file damaged.
func Damaged(err error) bool {
	if errors.Is(err, errNoSQLite) {
		return true
	}
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return false
	}
	switch code := lite.Code(); code & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	default:
		return code == sqlite3.SQLITE_IOERR_SHORT_READ
	}
}

// NeedsWrite reports whether SQLite could not read a file because it may not write beside it.
func NeedsWrite(err error) bool {
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return false
	}
	switch lite.Code() & 0xff {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return true
	}
	return false
}
