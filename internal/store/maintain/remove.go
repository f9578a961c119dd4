package maintain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"ingero/internal/store"
	"ingero/internal/store/retention"
)

// Removal selects what to remove from a database: segments older than Before, or segments beyond
// MaxBytes, or a Session.
type Removal struct {
	Path     string
	Owner    *store.Owner // owner of the files; nil: this process's user
	Before   time.Time    // segments last written before this time
	MaxBytes int64        // limit of all files; the oldest segments are removed first
	Session  string       // ID of a recording to remove with its rows
	// CallsOnly keeps the rows of Session.
	CallsOnly bool
	DryRun    bool // removes nothing, and reports what it would remove
}

// Removed is the result of a removal.
type Removed struct {
	Segments []string
	Bytes    int64    // size of these
	Sessions []string // sessions that lost a part or all
	Rows     bool     // the session's rows too
	Before   int64    // size of all files before the removal, in bytes
	After    int64    // the same after it
}

// Remove removes recordings, or calls of them. Sums of calls stay, except those of a whole session
// that is removed. It returns a [store.LockedError] if a process is recording, and an error that wraps
// [fs.ErrNotExist] if there is no such session.
func Remove(ctx context.Context, o Removal) (out *Removed, err error) {
	if !o.DryRun {
		err = store.Hold(o.Path, o.Owner, func(h *store.Held) (err error) {
			if err := h.OpenSQL(); err != nil {
				return err
			}
			out, err = (&remover{h, nil}).remove(ctx, &o)
			return err
		})
		return out, err
	}
	if store.Recording(o.Path) {
		return nil, &store.LockedError{Path: o.Path}
	}
	dir, err := os.Open(store.LogDir(o.Path))
	if errors.Is(err, fs.ErrNotExist) {
		return &Removed{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return (&remover{&store.Held{Path: o.Path, Dir: dir}, nil}).remove(ctx, &o)
}

// remover removes from a database. Without SQL it can only report what it would remove.
type remover struct {
	*store.Held
	kept *retention.Segments
}

// remove implements Remove.
func (m *remover) remove(ctx context.Context, o *Removal) (_ *Removed, err error) {
	if m.kept, err = retention.List(m.Dir, time.Now()); err != nil {
		return nil, err
	}
	r := &Removed{Before: m.sizeAtRest()}
	if !o.DryRun {
		m.kept.DeleteLeftovers()
		m.Vacuum(ctx, 1) // before calls have to make room for free pages
	}
	left := m.sizeAtRest()
	if o.Session != "" && !slices.ContainsFunc(m.kept.All, func(k retention.Segment) bool { return k.Session == o.Session }) && o.CallsOnly {
		return nil, fmt.Errorf("calls of session %s: %w", o.Session, fs.ErrNotExist)
	}
	for _, k := range slices.Clone(m.kept.All) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		switch {
		case o.Session != "" && k.Session != o.Session,
			!o.Before.IsZero() && !k.Last.Before(o.Before),
			o.MaxBytes > 0 && left <= o.MaxBytes:
			continue
		}
		if !o.DryRun {
			if err := m.Unlink(k.Name); err != nil {
				return r, err
			}
		}
		left -= k.Bytes
		r.Segments, r.Bytes = append(r.Segments, k.Name), r.Bytes+k.Bytes
		if !slices.Contains(r.Sessions, k.Session) {
			r.Sessions = append(r.Sessions, k.Session)
		}
	}
	if r.Rows = o.Session != "" && !o.CallsOnly; r.Rows && !slices.Contains(r.Sessions, o.Session) {
		r.Sessions = append(r.Sessions, o.Session)
	}
	if r.After = left; o.DryRun {
		return r, nil
	}
	if r.Rows {
		if _, err := m.SQL.ExecContext(ctx, "DELETE FROM sessions WHERE uid = ?", o.Session); err != nil { // cascades to all rows that refer to it
			return r, err
		}
	}
	m.Vacuum(ctx, 1)
	_ = m.Settle()
	if m.kept, err = retention.List(m.Dir, time.Now()); err == nil {
		r.After = m.sizeAtRest()
	}
	return r, err
}

// sizeAtRest returns the size of all files when nobody has the database open: without a write-ahead
// log.
func (m *remover) sizeAtRest() int64 {
	return m.kept.Bytes() + store.FileSize(m.Path)
}
