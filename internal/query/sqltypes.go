package query

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// SQLLimits bound what a statement may take; 0 is the default of each.
type SQLLimits struct {
	Rows  int
	Bytes int64
	Time  time.Duration
}

// SQLResult is what a statement returns.
type SQLResult struct {
	Columns  []string
	Rows     [][]any // of nil, int64, float64, string and []byte
	Cut      string  // why there are fewer rows than there would be; "" when these are all
	Coverage Coverage
	Took     time.Duration
}

// SQLError says in words what is wrong with a statement.
type SQLError struct {
	What string // one line
	Do   string // one line: what to do about it; may be empty
	Err  error  // what it came from; may be nil
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

// SQL runs a statement that reads. What is wrong with it is an [SQLError]; one that
// takes too long ends with the context's error.
func (r *Reader) SQL(ctx context.Context, text string, l SQLLimits) (*SQLResult, error) {
	if l.Rows <= 0 {
		l.Rows = 10_000
	}
	if l.Time <= 0 {
		l.Time = 30 * time.Second
	}
	ctx, stop := context.WithTimeout(ctx, l.Time)
	defer stop()
	began := time.Now()
	rows, err := r.db.QueryContext(ctx, text)
	if err != nil {
		return nil, sqlFailed(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	out := &SQLResult{}
	if out.Columns, err = rows.Columns(); err != nil {
		return nil, sqlFailed(ctx, err)
	}
	for rows.Next() {
		if len(out.Rows) == l.Rows {
			out.Cut = "there are more rows than were asked for"
			break
		}
		row := make([]any, len(out.Columns))
		to := make([]any, len(row))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, sqlFailed(ctx, err)
		}
		out.Rows = append(out.Rows, row)
	}
	out.Took = time.Since(began)
	if err := rows.Err(); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, sqlFailed(ctx, err)
	}
	return out, nil
}

func sqlFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &SQLError{What: err.Error(), Err: err}
}

// SQLColumn is a column of a table, or an argument of a function.
type SQLColumn struct {
	Name, Type string // TEXT, INTEGER or REAL
	About      string // what it is, and its unit
}

// SQLTable is a virtual table, or where it has arguments a function that stands in
// the place of one.
type SQLTable struct {
	Name, About string
	Columns     []SQLColumn
	Args        []SQLColumn // may be left out from the end, or be NULL
}

// SQLFunction is a function that statements can use beside SQLite's.
type SQLFunction struct{ Name, Args, About string }

// SQLSchema returns the virtual tables.
func SQLSchema() []SQLTable { return nil }

// SQLFunctions returns the functions of ingero's own, and the names of SQLite's that
// statements can use.
func SQLFunctions() (own []SQLFunction, builtin []string) { return nil, []string{"count", "sum"} }
