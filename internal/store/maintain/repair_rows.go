package maintain

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ingero/internal/store"
	"ingero/internal/store/log"
	"ingero/internal/store/segment"
)

// rows ensures that the SQLite file is readable and has all sessions with segments.
func (r *repairer) rows(ctx context.Context) error {
	why, err := r.state(ctx)
	if err != nil {
		return err
	}
	bad := ""
	if why != "" {
		if bad, err = r.SetAside(free(filepath.Dir(r.Path), filepath.Base(r.Path)+badSuffix)); err != nil {
			return err
		}
		if bad != "" {
			r.out.Kept = append(r.out.Kept, bad)
		}
		r.out.SQLite = why
		if err := r.OpenSQL(); err != nil {
			return err
		}
	}
	lacking, err := r.lacking(ctx)
	if err != nil {
		return err
	}
	if err := r.restore(ctx, lacking); err != nil {
		return err
	}
	if bad != "" {
		if err := r.salvage(ctx, bad); err != nil {
			return err
		}
	}
	_ = r.Settle()
	return nil
}

// state opens the SQLite file, or returns why it must be rebuilt.
func (r *repairer) state(ctx context.Context) (why string, err error) {
	if !exists(r.Path) {
		return "the file was missing", nil
	}
	segs, err := segment.List(r.files())
	if err != nil {
		return "", err
	}
	err = r.OpenSQL()
	if err == nil {
		var first string
		if err = r.SQL.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&first); err == nil && first != "ok" {
			why, _, _ = strings.Cut(first, "\n")
		}
	}
	switch {
	case why != "":
	case err == nil:
		return "", nil
	case len(segs) == 0: // it may be anyone's
		return "", err
	case errors.Is(err, store.ErrNotDatabase) && store.Damaged(err):
		why = "the file was not a SQLite file"
	case store.Damaged(err):
		why = "the file was malformed"
	default:
		return "", err
	}
	return why, nil
}

// lacking returns the sessions that have segments and no rows.
func (r *repairer) lacking(ctx context.Context) (out []string, err error) {
	err = eachSession(r.files(), func(segs []segment.Info) error {
		id, n := segs[0].Session, 0
		err := r.SQL.QueryRowContext(ctx, "SELECT count(*) FROM sessions WHERE uid = ?", id).Scan(&n)
		if err == nil && n == 0 {
			out = append(out, id)
		}
		return err
	})
	return out, err
}

// restore restores sessions' rows from their segments.
func (r *repairer) restore(ctx context.Context, sessions []string) (err error) {
	if len(sessions) == 0 {
		return nil
	}
	if err := r.unlinkRestored(); err != nil {
		return err
	}
	file, err := r.Open(restoredName, unix.O_EXCL)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.unlinkRestored()) }()
	path, some := r.path(restoredName), false
	for _, id := range sessions {
		restored, err := r.fromSegments(ctx, path, id)
		if err != nil {
			return fmt.Errorf("session %s: %w", id, err)
		}
		some = some || restored
	}
	if !some {
		return nil
	}
	m := &merger{r.Held, &Merged{}}
	err = m.source(ctx, &Source{Path: path, SQLite: path, Files: log.Dir(store.LogDir(path))})
	r.out.Restored = append(r.out.Restored, m.out.Added...)
	return err
}

func (r *repairer) unlinkRestored() (err error) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		err = errors.Join(err, r.Unlink(restoredName+suffix))
	}
	return err
}

// fromSegments restores a session in the SQLite file at path. A session whose log is unreadable
// stays without rows.
func (r *repairer) fromSegments(ctx context.Context, path, id string) (bool, error) {
	l, err := segment.OpenSession(r.files(), id)
	if segment.Unreadable(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if l.Cut() {
		r.out.Without = append(r.out.Without, id)
	}
	before := r.Seen
	err = store.Restore(ctx, path, l, func(n uint64) {
		if r.Checker.Progress != nil {
			r.Checker.Progress(before + n)
		}
	})
	return true, errors.Join(err, l.Close())
}

// salvage copies from a damaged SQLite file what is readable and not in segments: sessions whose
// segments were removed, and chains.
func (r *repairer) salvage(ctx context.Context, bad string) error {
	m := &merger{r.Held, &Merged{}}
	u := url.URL{Scheme: "file", Path: bad, RawQuery: "mode=ro"}
	if _, err := r.SQL.ExecContext(ctx, "ATTACH ? AS src", u.String()); err != nil {
		if ctx.Err() == nil && !store.Damaged(err) { // else nothing is readable
			r.out.SQLite += fmt.Sprintf("; cannot open %s to copy its rows: %v", bad, err)
		}
		return ctx.Err()
	}
	defer func() { _, _ = r.SQL.ExecContext(context.WithoutCancel(ctx), "DETACH src") }()
	tables, err := m.tables(ctx)
	if err != nil {
		return ctx.Err()
	}
	states, err := m.states(ctx)
	if err != nil {
		return ctx.Err()
	}
	for i := range states {
		s := &states[i]
		if s.here.Valid {
			r.chains(ctx, tables, s)
			continue
		}
		n := len(m.out.Added)
		if err := m.session(ctx, &Source{Path: bad, SQLite: bad, Files: log.Dir(store.LogDir(bad))}, tables, s); err != nil {
			m.out.Added = m.out.Added[:n]
			if r.partly(ctx, tables, s) {
				m.out.Added = append(m.out.Added, s.uid)
			}
		}
	}
	r.out.Copied = m.out.Added
	return ctx.Err()
}

// partly copies a session's readable tables.
func (r *repairer) partly(ctx context.Context, tables []table, s *state) bool {
	i := slices.IndexFunc(tables, func(t table) bool { return t.name == `"sessions"` })
	if i < 0 {
		return false
	}
	made, err := r.SQL.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.sessions (%[1]s) SELECT %[1]s FROM src.sessions WHERE id = ?", tables[i].list()), s.from)
	if err != nil {
		return false
	}
	id, err := made.LastInsertId()
	for _, t := range tables {
		if t.ofSession && err == nil {
			_, _ = r.SQL.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.%[1]s (session, %[2]s) SELECT ?, %[2]s FROM src.%[1]s WHERE session = ?", t.name, t.list()), id, s.from)
		}
	}
	return err == nil
}

// chains copies a session's chains, losses, episodes, accounts and steps of engines, as far as they are
// readable.
func (r *repairer) chains(ctx context.Context, tables []table, s *state) {
	for _, t := range tables {
		if slices.Contains([]string{`"chains"`, `"losses"`, `"episodes"`, `"accounts"`, `"engine_steps"`}, t.name) {
			_, _ = r.SQL.ExecContext(ctx, fmt.Sprintf("INSERT OR IGNORE INTO main.%[1]s (session, %[2]s) SELECT ?, %[2]s FROM src.%[1]s WHERE session = ?",
				t.name, t.list()), s.here, s.from)
		}
	}
}
