package maintain

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
)

// Source is a database to copy from.
type Source struct {
	Path   string    // path for messages
	SQLite string    // the SQLite file: Path, or a copy of it
	Files  log.Files // the recordings' files
}

// Merged is the result of a merge. Sessions are given by their IDs.
type Merged struct {
	Added    []string // new
	Replaced []string // existed, but the source has a later state
	Same     []string // existed, with the same or a later state
	Files    int      // copied files
	Bytes    int64    // size of these
}

// Merge copies all sessions of the sources into the database at path, which need not exist, for
// owner (nil: this process's user). A session has the same ID on every machine. Merge replaces a
// session's rows if the source has a later state, and copies files that are missing or shorter
// here. So merging again changes nothing, and a merge that was interrupted can be resumed.
//
// Merge copies rows of every table with a column session. Rows of other tables must mean the same
// in every database; existing ones stay. It returns a [store.LockedError] if a process records to any of
// them.
func Merge(ctx context.Context, path string, owner *store.Owner, sources []Source) (*Merged, error) {
	for _, s := range sources {
		if store.Recording(s.Path) {
			return nil, &store.LockedError{Path: s.Path}
		}
	}
	out := &Merged{}
	err := store.Hold(path, owner, func(h *store.Held) error {
		if err := h.OpenSQL(); err != nil {
			return err
		}
		m := &merger{h, out}
		for i := range sources {
			if err := m.source(ctx, &sources[i]); err != nil {
				return fmt.Errorf("merge %s: %w", sources[i].Path, err)
			}
		}
		return h.Settle()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

type merger struct {
	*store.Held
	out *Merged
}

// source copies one source's sessions.
func (m *merger) source(ctx context.Context, s *Source) (err error) {
	u := url.URL{Scheme: "file", Path: s.SQLite, RawQuery: "mode=ro"}
	if _, err := m.SQL.ExecContext(ctx, "ATTACH ? AS src", u.String()); err != nil {
		return err
	}
	defer func() {
		_, detached := m.SQL.ExecContext(context.WithoutCancel(ctx), "DETACH src")
		err = errors.Join(err, detached)
	}()
	tables, err := m.tables(ctx)
	if err != nil {
		return err
	}
	states, err := m.states(ctx)
	if err != nil {
		return err
	}
	for i := range states {
		if err := m.session(ctx, s, tables, &states[i]); err != nil {
			return fmt.Errorf("session %s: %w", states[i].uid, err)
		}
	}
	for _, t := range tables {
		if t.name != `"sessions"` && !t.ofSession {
			if _, err := m.SQL.ExecContext(ctx, fmt.Sprintf("INSERT OR IGNORE INTO main.%[1]s (%[2]s) SELECT %[2]s FROM src.%[1]s", t.name, t.list())); err != nil {
				return err
			}
		}
	}
	return nil
}

// state is a session's progress in the source and, if it exists, here.
type state struct {
	uid   string
	from  int64 // its number in the source
	here  sql.NullInt64
	later bool
}

func (m *merger) states(ctx context.Context) (out []state, err error) {
	rows, err := m.SQL.QueryContext(ctx, `SELECT s.uid, s.id, h.id,
		h.id IS NULL OR (s.updated_ns, s.ended_ns IS NOT NULL, s.rolled) > (h.updated_ns, h.ended_ns IS NOT NULL, h.rolled)
		FROM src.sessions s LEFT JOIN main.sessions h ON h.uid = s.uid ORDER BY s.started_ns, s.uid`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s state
		if err := rows.Scan(&s.uid, &s.from, &s.here, &s.later); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// session copies one session: files first, so that no row refers to a missing file.
func (m *merger) session(ctx context.Context, src *Source, tables []table, s *state) error {
	segs, err := segment.OfSession(src.Files, s.uid)
	if err != nil {
		return err
	}
	for i := range segs {
		if err := m.file(ctx, src, &segs[i]); err != nil {
			return fmt.Errorf("%s: %w", segs[i].Name, err)
		}
	}
	switch {
	case !s.later:
		m.out.Same = append(m.out.Same, s.uid)
		return nil
	case s.here.Valid:
		m.out.Replaced = append(m.out.Replaced, s.uid)
	default:
		m.out.Added = append(m.out.Added, s.uid)
	}
	tx, err := m.SQL.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := copyRows(ctx, tx, tables, s); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// copyRows replaces a session's rows by the source's.
func copyRows(ctx context.Context, tx *sql.Tx, tables []table, s *state) error {
	if s.here.Valid {
		if _, err := tx.ExecContext(ctx, "DELETE FROM main.sessions WHERE id = ?", s.here); err != nil { // cascades to all rows that refer to it
			return err
		}
	}
	sessions := tables[slices.IndexFunc(tables, func(t table) bool { return t.name == `"sessions"` })]
	r, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.sessions (id, %[1]s) SELECT ?, %[1]s FROM src.sessions WHERE id = ?", sessions.list()), s.here, s.from)
	if err != nil {
		return err
	}
	id, err := r.LastInsertId()
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.ofSession {
			_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%[1]s (session, %[2]s) SELECT ?, %[2]s FROM src.%[1]s WHERE session = ?", t.name, t.list()), id, s.from)
			if err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
	}
	return nil
}

// file copies a segment that is missing or shorter here. A sealed one is complete.
func (m *merger) file(ctx context.Context, src *Source, seg *segment.Info) (err error) {
	name, dir := seg.Name, m.Dir.Name()
	if store.FileSize(filepath.Join(dir, segment.Name(seg.Session, seg.Seq, true))) > 0 {
		return nil
	}
	from, err := src.Files.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	size, err := log.CompleteBytes(from, from.Size())
	if err != nil || name != filepath.Base(name) || store.FileSize(filepath.Join(dir, name)) >= size {
		return err
	}
	temp := "." + name + ".part" // replaces the leftover of an interrupted merge
	if err := m.Unlink(temp); err != nil {
		return err
	}
	to, err := m.Open(temp, unix.O_EXCL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if err := copyBytes(ctx, to, from, size); err != nil {
		return errors.Join(err, m.Unlink(temp))
	}
	m.out.Files, m.out.Bytes = m.out.Files+1, m.out.Bytes+size
	if err := m.Rename(temp, name); err != nil || !seg.Sealed {
		return err
	}
	return m.Unlink(segment.Name(seg.Session, seg.Seq, false))
}

func copyBytes(ctx context.Context, to *os.File, from io.ReaderAt, size int64) error {
	room := make([]byte, min(size, 4<<20))
	for at := int64(0); at < size; at += int64(len(room)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		room = room[:min(int64(len(room)), size-at)]
		if n, err := from.ReadAt(room, at); n < len(room) {
			return err
		}
		if _, err := to.Write(room); err != nil {
			return err
		}
	}
	return to.Sync()
}
