package export

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/parquet-go/parquet-go"

	"ingero/internal/query"
)

// sqliteBatch is the number of rows per transaction.
const sqliteBatch = 100_000

// SQLite writes the matching calls as rows of the table events of a SQLite file, with the
// database's tables about their sessions. The file at path must be empty or missing.
func SQLite(ctx context.Context, path string, r *query.Reader, f query.Filter, p Progress) (_ *Result, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if err := r.Snapshot(ctx, path); err != nil {
		return nil, err
	}
	q := url.Values{"_pragma": {"foreign_keys(on)", "journal_mode(off)", "synchronous(off)"}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	out := &sqliteSink{ctx: ctx, db: db, args: make([]any, len(columns))}
	if err := out.begin(r, f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), out.rollback())
	}
	res, err := stream(ctx, out, r, f, p)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), out.rollback())
	}
	return res, nil
}

// sqliteSink inserts rows.
type sqliteSink struct {
	ctx  context.Context
	db   *sql.DB
	tx   *sql.Tx
	stmt *sql.Stmt
	rows int
	args []any
}

// begin keeps the selected sessions, and creates the table. It makes the file no longer an ingero
// database, so that nothing records to it.
func (s *sqliteSink) begin(r *query.Reader, f query.Filter) error {
	sessions, err := r.Chosen(s.ctx, f)
	if err != nil {
		return err
	}
	uids := make([]any, len(sessions))
	for i := range sessions {
		uids[i] = sessions[i].ID
	}
	types := map[kind]string{text: "TEXT"}
	var names []string
	for _, c := range columns {
		t := types[c.kind]
		if t == "" {
			t = "INTEGER"
		}
		names = append(names, c.name+" "+t)
	}
	deleted, err := s.db.ExecContext(s.ctx, "DELETE FROM sessions WHERE uid NOT IN ("+marks(len(uids))+")", uids...)
	if err != nil {
		return err
	}
	steps := []string{"CREATE TABLE events (" + strings.Join(names, ", ") + ")", "PRAGMA application_id = 0", "PRAGMA user_version = 0"}
	if n, err := deleted.RowsAffected(); err != nil {
		return err
	} else if n > 0 { // deleted rows stay in the file's pages otherwise
		steps = append([]string{"VACUUM"}, steps...)
	}
	for _, step := range append([]string{"DROP TABLE IF EXISTS events"}, steps...) {
		if _, err := s.db.ExecContext(s.ctx, step); err != nil {
			return err
		}
	}
	return s.next()
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// next starts a transaction.
func (s *sqliteSink) next() (err error) {
	if s.tx, err = s.db.BeginTx(s.ctx, nil); err != nil {
		return err
	}
	s.stmt, err = s.tx.PrepareContext(s.ctx, "INSERT INTO events VALUES ("+marks(len(columns))+")")
	return err
}

func (s *sqliteSink) write(row []parquet.Value) error {
	for i, v := range row {
		s.args[i] = goValue(columns[i].kind, v)
	}
	if _, err := s.stmt.ExecContext(s.ctx, s.args...); err != nil {
		return err
	}
	if s.rows++; s.rows%sqliteBatch != 0 {
		return nil
	}
	if err := s.commit(); err != nil {
		return err
	}
	return s.next()
}

func (s *sqliteSink) commit() error {
	tx := s.tx
	s.tx = nil
	return tx.Commit()
}

// close commits the rest, and creates the indexes: once at the end is faster.
func (s *sqliteSink) close() error {
	if err := s.commit(); err != nil {
		return err
	}
	_, err := s.db.ExecContext(s.ctx, "CREATE INDEX events_timestamp ON events (timestamp); CREATE INDEX events_op ON events (op)")
	return err
}

func (s *sqliteSink) rollback() error {
	if s.tx == nil {
		return nil
	}
	return s.tx.Rollback()
}
