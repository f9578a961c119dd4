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

// silencesSchema is the number of the migration that created the table silences.
const silencesSchema = 11

// openSilences opens the SQLite file, and does not change the schema of a process that records.
func (h *Held) openSilences() error {
	if !Recording(h.Path) {
		return h.openSQL(silencesSchema)
	}
	if err := h.openSQL(0); err != nil {
		return err
	}
	version, err := SchemaVersion(h.SQL)
	if err == nil && version < silencesSchema {
		err = errors.New("the ingero that records to it is too old for silences; stop it, and trace with this version")
	}
	return err
}

// Silence applies a change, also while another process records, and deletes expired silences.
// removed reports whether Remove was silenced. It leaves a schema with silences unchanged, since an
// older version may be recording.
func Silence(o Silencing) (removed bool, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return false, err
	}
	h, err := locate(path, o.Owner)
	defer func() { err = errors.Join(inWords(path, err), h.close()) }()
	if err == nil {
		err = h.openSilences()
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
