package legacy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ingero/internal/store"
)

// DB is a database of ingero 0.9, open for reading. It is not safe for concurrent use.
type DB struct {
	path    string
	sql     *sql.DB
	columns map[string][]string // by table
}

// Open opens the database at path. It returns an error that wraps [store.ErrNotDatabase] if the
// file belongs to another program, and SQLite's error if it is no database.
func Open(ctx context.Context, path string) (_ *DB, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	d := &DB{path: path, columns: map[string][]string{}}
	err = d.open(ctx, "mode=ro")
	if _, journal := os.Stat(path + "-wal"); store.NeedsWrite(err) && errors.Is(journal, fs.ErrNotExist) {
		err = d.open(ctx, "immutable=1") // nobody writes to it, and the directory is read-only
	}
	if err == nil && !d.has("events", store.OldColumns...) {
		err = fmt.Errorf("%w, nor of 0.9", store.ErrNotDatabase)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), d.Close())
	}
	return d, nil
}

func (d *DB) open(ctx context.Context, how string) (err error) {
	if err := d.Close(); err != nil {
		return err
	}
	u := url.URL{Scheme: "file", Path: d.path, RawQuery: how + "&_pragma=busy_timeout(5000)&_pragma=query_only(on)"}
	if d.sql, err = sql.Open("sqlite", u.String()); err != nil {
		return err
	}
	return d.rows(ctx, func(rows *sql.Rows) error {
		var table, column string
		err := rows.Scan(&table, &column)
		d.columns[table] = append(d.columns[table], column)
		return err
	}, `SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY t.name, c.cid`)
}

// Close closes the database. It is idempotent.
func (d *DB) Close() error {
	if d.sql == nil {
		return nil
	}
	db := d.sql
	d.sql = nil
	return db.Close()
}

// has reports whether a table with these columns exists.
func (d *DB) has(table string, columns ...string) bool {
	known, ok := d.columns[table]
	for _, c := range columns {
		ok = ok && slices.Contains(known, c)
	}
	return ok
}

// column returns a column for a query, or otherwise if it is missing.
func (d *DB) column(table, name, otherwise string) string {
	if d.has(table, name) {
		return "coalesce(" + name + ", " + otherwise + ")"
	}
	return otherwise
}

// list returns several columns, each replaced by otherwise if missing.
func (d *DB) list(table, otherwise string, names ...string) string {
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(d.column(table, n, otherwise))
	}
	return b.String()
}

// rows runs a query and scans each row.
func (d *DB) rows(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := d.sql.QueryContext(ctx, query, args...)
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
