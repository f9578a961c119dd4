package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Snapshot writes the SQLite file as it is at one moment to another, at path, which
// is empty or not there. Whoever writes is not stopped. It has no logs.
func (r *Reader) Snapshot(ctx context.Context, path string) (err error) {
	conn, err := r.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// The database itself is open for reading only. What forbids writing to it once
	// more would forbid writing to any.
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
