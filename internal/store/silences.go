package store

import (
	"errors"
	"path/filepath"
	"time"

	"ingero/internal/tick"
)

// Silencing is a change of the silenced causes.
type Silencing struct {
	Path   string // the database's, which is created if missing
	Owner  *Owner // owner of the files; nil: this process's user
	Now    time.Time
	Add    *tick.Silence // nil: none; replaces an equal one
	Remove string        // silence to end; empty: none
}

// Silence applies a change, also while another process records, and deletes expired silences.
// removed reports whether Remove was silenced.
func Silence(o Silencing) (removed bool, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return false, err
	}
	h, err := locate(path, o.Owner)
	defer func() { err = errors.Join(inWords(path, err), h.close()) }()
	if err == nil {
		err = h.OpenSQL()
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = h.Settle() }()
	tx, err := h.SQL.Begin()
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
	gone, err := tx.Exec("DELETE FROM silences WHERE what = ? AND until_ns > ?", o.Remove, o.Now.UnixNano())
	if err != nil {
		return false, err
	}
	n, err := gone.RowsAffected()
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec("DELETE FROM silences WHERE until_ns <= ?", o.Now.UnixNano()); err != nil {
		return false, err
	}
	if s := o.Add; s != nil {
		if _, err := tx.Exec("REPLACE INTO silences VALUES (?, ?, ?, ?, ?)", s.What, s.Since.UnixNano(), s.Until.UnixNano(), s.Reason, s.Who); err != nil {
			return false, err
		}
	}
	return n > 0, tx.Commit()
}
