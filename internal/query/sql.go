package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLLimits bound a statement. Zero is each one's default.
type SQLLimits struct {
	Rows  int           // of the result; 10,000
	Bytes int64         // of the result's values; 16 MiB
	Time  time.Duration // including the wait for another statement; 10 s
}

// orDefaults fills in unset limits.
func (l SQLLimits) orDefaults() SQLLimits {
	if l.Rows <= 0 {
		l.Rows = 10_000
	}
	if l.Bytes <= 0 {
		l.Bytes = 16 << 20
	}
	if l.Time <= 0 {
		l.Time = 10 * time.Second
	}
	return l
}

// SQLResult is a statement's result.
type SQLResult struct {
	Columns  []string
	Rows     [][]any // nil, int64, float64, string and []byte values
	Cut      string  // why further rows are missing; "": complete
	Coverage Coverage
	Took     time.Duration
}

// SQLError describes what is wrong with a statement.
type SQLError struct {
	What string // one line
	Do   string // one line: the remedy; may be empty
	Err  error  // the cause; may be nil
}

// Error returns both lines as one.
func (e *SQLError) Error() string {
	if e.Do == "" {
		return e.What
	}
	return e.What + ": " + e.Do
}

// Unwrap returns the cause.
func (e *SQLError) Unwrap() error { return e.Err }

// Fixed bounds. SQLite checks for an interrupt when a program jumps back, so the length of the
// program and of a value bound what runs in between. Together they keep the memory below 256 MB.
const (
	sqlLength = 100_000          // bytes per value
	sqlText   = 16 << 10         // bytes per statement
	sqlSteps  = 1400             // instructions of the compiled program
	sqlMemory = 96 << 20         // bytes by which the process may grow
	sqlDisk   = 512 << 20        // bytes of temporary files for sorting
	sqlGrace  = time.Second / 20 // time to end after an interrupt
)

// sqlBounds are SQLite's own limits, by their numbers.
var sqlBounds = map[int]int{
	sqlite3.SQLITE_LIMIT_LENGTH:              sqlLength,
	sqlite3.SQLITE_LIMIT_SQL_LENGTH:          sqlText,
	sqlite3.SQLITE_LIMIT_COLUMN:              128,
	sqlite3.SQLITE_LIMIT_EXPR_DEPTH:          200,
	sqlite3.SQLITE_LIMIT_COMPOUND_SELECT:     64,
	sqlite3.SQLITE_LIMIT_VDBE_OP:             sqlSteps,
	sqlite3.SQLITE_LIMIT_FUNCTION_ARG:        32,
	sqlite3.SQLITE_LIMIT_ATTACHED:            0,
	sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 64,
	sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER:     1,
	sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH:       1,
	sqlite3.SQLITE_LIMIT_WORKER_THREADS:      0,
}

// SQL runs one read-only statement over the tables of the file and the virtual tables and functions
// of [SQLSchema]. An error in a statement is an [SQLError]; a statement that exceeds its time ends
// with the context's error within 100 ms. A Reader runs such statements one at a time.
func (r *Reader) SQL(ctx context.Context, text string, l SQLLimits) (*SQLResult, error) {
	l = l.orDefaults()
	text, err := one(text)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, stop := context.WithTimeout(ctx, l.Time)
	defer stop()
	select {
	case r.slot <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := &statement{r: r, ctx: ctx, cancel: cancel, text: text, limits: l, now: began, seed: maphash.MakeSeed()}
	ended := make(chan error, 1)
	r.running.Add(1)
	go func() {
		defer r.running.Done()
		defer func() { <-r.slot }()
		defer cancel(nil)
		ended <- s.run()
	}()
	if err := awaitEnd(ctx, ended); err != nil {
		return nil, err
	}
	s.result.Took = time.Since(began)
	return &s.result, nil
}

// awaitEnd returns how a statement ended. An interrupted statement normally ends at once; awaitEnd
// does not wait for uninterruptible parts of SQLite, such as planning.
func awaitEnd(ctx context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace := time.NewTimer(sqlGrace)
	defer grace.Stop()
	select {
	case err := <-ended:
		return err
	case <-grace.C:
		return context.Cause(ctx)
	}
}

// statement is one running statement. Its goroutine owns its fields.
type statement struct {
	r      *Reader
	ctx    context.Context
	cancel context.CancelCauseFunc
	text   string
	limits SQLLimits
	now    time.Time
	seed   maphash.Seed // for the rows' ids

	conn    queryer
	tables  map[string]bool // readable tables, lower case
	guarded bool            // the statement itself runs: the authorizer restricts it
	denied  *SQLError       // the authorizer's reason to deny it
	err     error           // a virtual table's error
	result  SQLResult
}

// run runs the statement on a connection of its own, so that nothing outlives it.
func (s *statement) run() (err error) {
	key := register(s)
	defer unregister(key)
	db := sql.OpenDB(connector{s.r.dataSource()})
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(s.ctx)
	if err != nil {
		return s.failed(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := s.prepare(conn, key); err != nil {
		return s.failed(err)
	}
	ended := watch(s.ctx, s.cancel, sqlMemory, sqlDisk)
	defer ended()
	return s.failed(conn.Raw(func(c any) error { return s.guard(c, key) }))
}

// dataSource returns the name of the database, read-only. The name must begin with file:, or SQLite
// ignores the mode.
func (r *Reader) dataSource() string {
	path := r.path
	if r.temp != "" {
		path = filepath.Join(r.temp, copyName)
	}
	q := url.Values{"mode": {"ro"}, "_defensive": {"1"}, "_pragma": {"busy_timeout(2000)", "trusted_schema(off)", "temp_store(file)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// prepare creates the connection's virtual tables, and then denies everything but reading.
func (s *statement) prepare(conn *sql.Conn, key string) error {
	s.tables = map[string]bool{"sqlite_schema": true, "sqlite_master": true, "json_each": true, "json_tree": true}
	err := eachRow(s.ctx, conn, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		s.tables[name] = true
		return err
	}, "SELECT lower(name) FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'")
	if err != nil {
		return err
	}
	for _, v := range virtuals {
		s.tables[v.Name] = true
		if _, err := conn.ExecContext(s.ctx, fmt.Sprintf("CREATE VIRTUAL TABLE temp.%s USING %s(%s)", v.Name, v.module(), key)); err != nil {
			return err
		}
	}
	if _, err := conn.ExecContext(s.ctx, "PRAGMA query_only=on"); err != nil {
		return err
	}
	for id, most := range sqlBounds {
		if _, err := sqlite.Limit(conn, id, most); err != nil {
			return err
		}
	}
	return nil
}

// failed returns why the statement failed: the first cause.
func (s *statement) failed(err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	if s.denied != nil {
		return s.denied
	}
	if s.err != nil {
		return s.err
	}
	return inWords(err)
}

// note adds a part's coverage.
func (s *statement) note(c Coverage) {
	to := &s.result.Coverage
	torn := max(to.Torn, c.Torn) // a table may be read more than once
	calls, variance := max(to.Calls, c.Calls), max(to.Variance, c.Variance)
	missing, damage := addNew(to.Missing, c.Missing), addNew(to.Damage, c.Damage)
	to.Add(c)
	to.Torn, to.Missing, to.Damage, to.Calls, to.Variance = torn, missing, damage, calls, variance
}

// size is a value's size for [SQLLimits.Bytes].
func size(v any) int64 {
	const header = 16
	switch v := v.(type) {
	case string:
		return header + int64(len(v))
	case []byte:
		return header + int64(len(v))
	}
	return header
}
