package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"ingero/internal/store/log"
	"ingero/internal/store/maintain"
)

// packedTable holds a backup's files in pieces: data is the piece of file name at offset at.
const packedTable = `CREATE TABLE IF NOT EXISTS files (name TEXT NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (name, at))`

// pieceBytes is the size of all pieces but a file's last.
const pieceBytes = 4 << 20

// files are the segments of a reader's database: beside it, or in it if it is a backup.
type files struct {
	*Reader
	log.Dir
}

// List implements [log.Files].
func (f files) List() ([]log.FileInfo, error) {
	found, err := f.Dir.List()
	if err != nil || !f.packed(context.Background()) {
		return found, err
	}
	err = f.rows(context.Background(), func(rows *sql.Rows) error {
		var x log.FileInfo
		err := rows.Scan(&x.Name, &x.Bytes)
		if !slices.ContainsFunc(found, func(y log.FileInfo) bool { return y.Name == x.Name }) {
			found = append(found, x)
		}
		return err
	}, "SELECT name, max(at + length(data)) FROM files GROUP BY name ORDER BY name")
	return found, err
}

// Open implements [log.Files].
func (f files) Open(name string) (log.File, error) {
	file, err := f.Dir.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f.openPacked(filepath.Base(name))
	}
	return file, err
}

// packed reports whether the database is a backup.
func (r *Reader) packed(ctx context.Context) bool {
	var n int
	err := r.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'files'").Scan(&n)
	return err == nil && n > 0
}

// packedFile is a file in a backup.
type packedFile struct {
	r    *Reader
	name string
	size int64

	mu    sync.Mutex // guards the fields below
	at    int64      // offset of piece
	piece []byte     // last read
}

func (r *Reader) openPacked(name string) (log.File, error) {
	missing := &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	if !r.packed(context.Background()) {
		return nil, missing
	}
	var size sql.NullInt64
	if err := r.db.QueryRow("SELECT max(at + length(data)) FROM files WHERE name = ?", name).Scan(&size); err != nil {
		return nil, err
	}
	if !size.Valid {
		return nil, missing
	}
	return &packedFile{r: r, name: name, size: size.Int64}, nil
}

func (f *packedFile) Size() int64  { return f.size }
func (f *packedFile) Close() error { return nil }

// ReadAt implements [io.ReaderAt].
func (f *packedFile) ReadAt(p []byte, at int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		if at+int64(n) >= f.size {
			return n, io.EOF
		}
		if err := f.load(at + int64(n)); err != nil {
			return n, err
		}
		n += copy(p[n:], f.piece[at+int64(n)-f.at:])
	}
	return n, nil
}

// load reads the piece that contains offset at.
func (f *packedFile) load(at int64) error {
	if f.at <= at && at < f.at+int64(len(f.piece)) {
		return nil
	}
	err := f.r.db.QueryRow("SELECT at, data FROM files WHERE name = ? AND at <= ? ORDER BY at DESC LIMIT 1", f.name, at).Scan(&f.at, &f.piece)
	if err == nil && at >= f.at+int64(len(f.piece)) {
		err = fmt.Errorf("%w: a piece is missing", log.ErrCorrupt)
	}
	if err != nil {
		f.piece = nil
		return fmt.Errorf("%s:%s at byte %d: %w", f.r.path, f.name, at, err)
	}
	return nil
}

// Source returns the database as a source for a merge. It is valid while the reader is open.
func (r *Reader) Source() maintain.Source {
	s := maintain.Source{Path: r.path, SQLite: r.path, Files: r.files}
	if r.temp != "" {
		s.SQLite = filepath.Join(r.temp, copyName)
	}
	return s
}
