package store

import (
	"errors"
	"path/filepath"
	"time"

	"ingero/internal/tick"
)

// Silencing says how to change which causes nobody wants to hear of.
type Silencing struct {
	Path   string // of the database, which is made where there is none
	Owner  *Owner // whose files they are; nil: this process's user
	Now    time.Time
	Add    *tick.Silence // nil: none. It takes the place of one of the same
	Remove string        // what is not silenced any more; empty: nothing
}

// Silence changes them, also while another process records, and drops those whose time
// is over. removed says that Remove was silenced.
func Silence(o Silencing) (removed bool, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return false, err
	}
	db := &DB{o: Options{Path: path, Owner: o.Owner}}
	defer func() { err = errors.Join(inWords(path, err), db.release()) }()
	p := db.places()
	parent, err := p.dir(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	db.o.Path = filepath.Join(parent.Name(), filepath.Base(path)) // links resolved
	if err := errors.Join(parent.Close(), db.openMain(p)); err != nil {
		return false, err
	}
	defer db.settle()
	tx, err := db.sql.Begin()
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // nothing, once it is committed
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
