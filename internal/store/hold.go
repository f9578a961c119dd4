package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ingero/internal/store/segment"
)

// Held is a database whose lock this process has, so that no other process records to it. It
// creates and opens files with the precautions of [OpenFile].
type Held struct {
	Path string   // of the SQLite file, with symbolic links resolved
	Dir  *os.File // directory of the logs
	SQL  *sql.DB  // nil until OpenSQL

	places places
	lock   *os.File
	main   *os.File // the SQLite file, open to keep its identity
}

// Hold calls f while this process holds the database at path. It creates files and directories for
// owner (nil: this process's user), and does not touch the SQLite file. It returns a [LockedError]
// if another process holds the database, and a [FullError] if the disk is full.
func Hold(path string, owner *Owner, f func(*Held) error) (err error) {
	h, err := hold(path, owner)
	defer func() { err = errors.Join(inWords(path, err), h.close()) }()
	if err != nil {
		return err
	}
	return f(h)
}

// hold takes the lock of the database at path. close releases it, also after an error.
func hold(path string, owner *Owner) (*Held, error) {
	h, err := locate(path, owner)
	if err != nil {
		return h, err
	}
	if h.Dir, err = h.places.dir(LogDir(h.Path)); err != nil {
		return h, err
	}
	h.lock, err = h.places.lock(h.Dir, h.Path)
	return h, err
}

// locate resolves a database's path, and does not lock the database.
func locate(path string, owner *Owner) (*Held, error) {
	h := &Held{places: placesOf(owner)}
	path, err := filepath.Abs(path)
	if err != nil {
		return h, err
	}
	parent, err := h.places.dir(filepath.Dir(path))
	if err != nil {
		return h, err
	}
	h.Path = filepath.Join(parent.Name(), filepath.Base(path))
	return h, parent.Close()
}

// OpenSQL opens the SQLite file, creates it if missing, and migrates its schema.
func (h *Held) OpenSQL() error { return h.openSQL(Schema()) }

// openSQL is OpenSQL, and leaves the schema as it is if it has the first enough migrations.
func (h *Held) openSQL(enough int) (err error) {
	parent, err := h.places.dir(filepath.Dir(h.Path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	if h.main, err = h.places.open(parent, filepath.Base(h.Path), 0); err != nil {
		return err
	}
	h.SQL, err = openSQL(h.Path, enough, h.sameFile)
	return err
}

// sameFile verifies that SQLite opened the file that was checked, and not another one put in its
// place. In that case this process has the file open twice.
func (h *Held) sameFile() error {
	want, err := h.main.Stat()
	if err != nil {
		return err
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	n := 0
	for _, fd := range fds {
		if s, err := os.Stat("/proc/self/fd/" + fd.Name()); err == nil && os.SameFile(s, want) {
			n++
		}
	}
	if n < 2 {
		return &UnsafeError{Path: h.Path, Why: "was replaced while ingero opened it"}
	}
	return nil
}

// Settle removes the SQLite file's write-ahead log, so that the file can be copied, and read from a
// read-only disk. While a reader is active, the log must stay.
func (h *Held) Settle() error {
	_, err := h.SQL.Exec(waitShort + "; PRAGMA journal_mode = delete")
	return err
}

// Vacuum returns the SQLite file's unused pages to the file system if they have at least some bytes. It
// leaves them while a reader is active, or if the disk has no room for a copy.
func (h *Held) Vacuum(ctx context.Context, least int64) {
	const truncate = "PRAGMA wal_checkpoint(truncate)"
	var busy, pages, done, unused int64
	err := h.SQL.QueryRowContext(ctx, truncate).Scan(&busy, &pages, &done) // a killed writer may have left some
	if err == nil && busy == 0 {
		err = h.SQL.QueryRowContext(ctx, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&unused)
	}
	if err == nil && unused >= least {
		_, _ = h.SQL.ExecContext(ctx, "VACUUM")
		_, _ = h.SQL.ExecContext(ctx, truncate)
	}
}

// SetAside closes the SQLite file and renames it and its companions. It returns the file's new
// path, "" if there is none.
func (h *Held) SetAside(to string) (aside string, err error) {
	_ = h.closeSQL() // error of a damaged file
	dir, err := h.places.dir(filepath.Dir(h.Path))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	base := filepath.Base(h.Path)
	for _, suffix := range []string{"-shm", "-wal", "-journal", ""} { // the file itself last: until then this is repeated
		err := unix.Renameat(int(dir.Fd()), base+suffix, int(dir.Fd()), to+suffix)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return "", pathError("rename", h.Path+suffix, err)
		}
		if suffix == "" {
			aside = filepath.Join(dir.Name(), to)
		}
	}
	return aside, nil
}

// Open opens a file of the directory for reading and writing. It creates the file if it is missing,
// or must be new (O_EXCL in flags).
func (h *Held) Open(name string, flags int) (*os.File, error) {
	return h.places.open(h.Dir, name, flags)
}

// Existing opens a file of the directory for reading.
func (h *Held) Existing(name string) (*os.File, error) { return h.places.existing(h.Dir, name) }

// Seal writes a segment in sealed form to a new file with the same modification time. After an error,
// there is no such file.
func (h *Held) Seal(from, to string) (size int64, err error) {
	src, err := h.Existing(from)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	info, err := src.Stat()
	if err != nil {
		return 0, err
	}
	_ = h.Unlink(to) // a crash may have left one
	dst, err := h.Open(to, unix.O_EXCL)
	if err != nil {
		return 0, err
	}
	err = segment.Seal(dst, src, info.Size())
	if err == nil {
		err = dst.Sync()
	}
	if err == nil {
		err = os.Chtimes(dst.Name(), info.ModTime(), info.ModTime())
	}
	out, statErr := dst.Stat()
	if err = errors.Join(err, statErr, dst.Close()); err != nil {
		return 0, errors.Join(err, h.Unlink(to))
	}
	return out.Size(), nil
}

// Unlink deletes a file of the directory, if it exists.
func (h *Held) Unlink(name string) error {
	err := unix.Unlinkat(int(h.Dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return pathError("remove", filepath.Join(h.Dir.Name(), name), err)
}

// Rename renames a file of the directory.
func (h *Held) Rename(from, to string) error {
	fd := int(h.Dir.Fd())
	return pathError("rename", filepath.Join(h.Dir.Name(), from), unix.Renameat(fd, from, fd, to))
}

// close closes all files, and last releases the lock.
func (h *Held) close() error {
	err := h.closeSQL()
	if h.lock != nil {
		err = errors.Join(err, unlock(h.lock), h.lock.Close())
	}
	if h.Dir != nil {
		err = errors.Join(err, h.Dir.Close())
	}
	return err
}

func (h *Held) closeSQL() (err error) {
	if h.SQL != nil {
		err = h.SQL.Close()
	}
	if h.main != nil {
		err = errors.Join(err, h.main.Close())
	}
	h.SQL, h.main = nil, nil
	return err
}

// called replaces f by a duplicate that reports another name.
func called(f *os.File, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(pathError("duplicate", f.Name(), err), f.Close())
	}
	return os.NewFile(uintptr(fd), name), f.Close()
}

// Leftover reports whether a file of a database's directory is a killed recording's leftover, which
// no one needs unless a process is writing.
func Leftover(name string) bool {
	return name == reserveName || strings.HasSuffix(name, segment.SealedSuffix+".tmp") || strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".part")
}
