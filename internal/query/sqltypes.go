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

// SQLError says what is wrong with a statement.
type SQLError struct {
	What string
	Err  error
}

// Error returns what is wrong, in words.
func (e *SQLError) Error() string { return e.What }

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
