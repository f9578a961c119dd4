package store

import (
	"errors"
	"fmt"
	"ingero/internal/store/segment"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hold takes the database's lock without recording to it. It does not touch the SQLite file.
// release closes what it opened, also after an error.
func (db *DB) hold(p places) error {
	path, err := filepath.Abs(db.o.Path)
	if err != nil {
		return err
	}
	parent, err := p.dir(filepath.Dir(path))
	if err != nil {
		return err
	}
	db.o.Path = filepath.Join(parent.Name(), filepath.Base(path)) // symbolic links resolved
	if err := parent.Close(); err != nil {
		return err
	}
	if db.dir, err = p.dir(LogDir(db.o.Path)); err != nil {
		return err
	}
	db.lock, err = p.lock(db.dir, db.o.Path)
	return err
}

// openMain opens the SQLite file, and creates it if missing.
func (db *DB) openMain(p places) (err error) {
	parent, err := p.dir(filepath.Dir(db.o.Path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	if db.main, err = p.open(parent, filepath.Base(db.o.Path), 0); err != nil {
		return err
	}
	db.sql, err = openSQL(db.o.Path, db.sameFile)
	return err
}

// settle removes the SQLite file's write-ahead log, as the end of a recording does. While a reader
// is active, the log must stay.
func (db *DB) settle() {
	_, _ = db.sql.Exec(waitShort + "; PRAGMA journal_mode = delete")
}

// unlink deletes a file of the directory.
func (db *DB) unlink(name string) error {
	err := unix.Unlinkat(int(db.dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return pathError("remove", filepath.Join(db.dir.Name(), name), err)
}

// rename renames a file of the directory.
func (db *DB) rename(from, to string) error {
	fd := int(db.dir.Fd())
	return pathError("rename", filepath.Join(db.dir.Name(), from), unix.Renameat(fd, from, fd, to))
}

// called replaces f by a duplicate that reports another name.
func called(f *os.File, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(pathError("duplicate", f.Name(), err), f.Close())
	}
	return os.NewFile(uintptr(fd), name), f.Close()
}

// Leftover reports whether a file of a database's directory is a killed process's leftover, which
// no one needs unless a process is writing.
func Leftover(name string) bool {
	return name == reserveName || strings.HasSuffix(name, segment.SealedSuffix+".tmp") || strings.HasSuffix(name, rewrittenSuffix) ||
		strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".part") || strings.HasPrefix(name, restoredName)
}

// isBad reports whether a repair has replaced a file.
func isBad(name string) bool {
	return strings.HasSuffix(name, badSuffix) || strings.Contains(name, badSuffix+".")
}

const (
	rewrittenSuffix = ".rewritten" // a segment being rewritten
	badSuffix       = ".bad"       // a damaged file that was replaced
)

// free returns an unused file name: name, with a number appended if necessary.
func free(there func(string) bool, name string) string {
	out := name
	for i := 2; there(out); i++ {
		out = fmt.Sprintf("%s.%d", name, i)
	}
	return out
}

// exists reports whether path exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// age sets a file's modification time.
func age(path string, at time.Time) error { return os.Chtimes(path, at, at) }
