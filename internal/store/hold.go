package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hold makes this process the one that may write to the database, of which nothing
// is recorded. The SQLite file is not touched. What it opened is closed by release,
// on an error too.
func (db *DB) hold(p places) error {
	path, err := filepath.Abs(db.o.Path)
	if err != nil {
		return err
	}
	parent, err := p.dir(filepath.Dir(path))
	if err != nil {
		return err
	}
	db.o.Path = filepath.Join(parent.Name(), filepath.Base(path)) // links resolved
	if err := parent.Close(); err != nil {
		return err
	}
	if db.dir, err = p.dir(LogDir(db.o.Path)); err != nil {
		return err
	}
	db.lock, err = p.lock(db.dir, db.o.Path)
	return err
}

// openMain opens the SQLite file, and makes it if there is none.
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

// settle leaves the SQLite file without a write-ahead log, as a recording does. While
// somebody reads it, that has to wait.
func (db *DB) settle() {
	_, _ = db.sql.Exec(waitShort + "; PRAGMA journal_mode = delete")
}

// unlink removes a file of the directory.
func (db *DB) unlink(name string) error {
	err := unix.Unlinkat(int(db.dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return pathError("remove", filepath.Join(db.dir.Name(), name), err)
}

// rename gives a file of the directory another name.
func (db *DB) rename(from, to string) error {
	fd := int(db.dir.Fd())
	return pathError("rename", filepath.Join(db.dir.Name(), from), unix.Renameat(fd, from, fd, to))
}

// called gives an open file, in the place of f, another name to be told by.
func called(f *os.File, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(pathError("duplicate", f.Name(), err), f.Close())
	}
	return os.NewFile(uintptr(fd), name), f.Close()
}

// Leftover says whether a file of a database's directory was left by a process that
// was killed, so that nobody needs it once nobody writes.
func Leftover(name string) bool {
	return name == spareName || strings.HasSuffix(name, sealedSuffix+".tmp") || strings.HasSuffix(name, rewrittenSuffix) ||
		strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".part") || strings.HasPrefix(name, restoredName)
}

// isBad says whether a file is one that a repair has replaced.
func isBad(name string) bool {
	return strings.HasSuffix(name, badSuffix) || strings.Contains(name, badSuffix+".")
}

const (
	rewrittenSuffix = ".rewritten" // of a segment that is being rewritten
	badSuffix       = ".bad"       // of what was damaged and has been replaced
)

// free returns a name that no file has: that with a number behind it if need be.
func free(there func(string) bool, name string) string {
	out := name
	for i := 2; there(out); i++ {
		out = fmt.Sprintf("%s.%d", name, i)
	}
	return out
}

// exists says whether there is something at path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// age makes a file as old as it is said to be.
func age(path string, at time.Time) error { return os.Chtimes(path, at, at) }
