package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"ingero/internal/store"
)

// packedTable holds the files of a backup, in pieces: that of a name which begins at
// byte at.
const packedTable = `CREATE TABLE IF NOT EXISTS files (name TEXT NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (name, at))`

// pieceBytes is the size of a piece, but for a file's last.
const pieceBytes = 4 << 20

// logFile is a file of recordings, wherever it lies. ReadAt may be called from any
// goroutine.
type logFile interface {
	io.ReaderAt
	io.Closer
	Name() string
	Size() int64 // bytes, when it was opened
}

// openFile opens a file of recordings: beside the database, or in it where that is a
// backup. The error is [fs.ErrNotExist] when it is nowhere.
func (r *Reader) openFile(name string) (logFile, error) {
	name = filepath.Base(name)
	file, err := os.Open(filepath.Join(store.LogDir(r.path), name))
	if errors.Is(err, fs.ErrNotExist) {
		return r.openPacked(name)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &plainFile{file, info.Size()}, nil
}

// fileNames returns the names of all files of recordings, in their order.
func (r *Reader) fileNames(ctx context.Context) ([]string, error) {
	names, err := store.LogNames(r.path)
	if err != nil || !r.packed(ctx) {
		return names, err
	}
	beside := make(map[string]bool, len(names))
	for _, n := range names {
		beside[n] = true
	}
	err = r.rows(ctx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		if !beside[name] {
			names = append(names, name)
		}
		return err
	}, "SELECT DISTINCT name FROM files ORDER BY name")
	return names, err
}

// packed tells whether the database is a backup.
func (r *Reader) packed(ctx context.Context) bool {
	var n int
	err := r.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'files'").Scan(&n)
	return err == nil && n > 0
}

// plainFile is a file of its own.
type plainFile struct {
	*os.File
	size int64
}

func (f *plainFile) Size() int64 { return f.size }

// packedFile is a file in a backup.
type packedFile struct {
	r    *Reader
	name string
	size int64

	mu    sync.Mutex // guards what follows
	at    int64      // where piece begins
	piece []byte     // read last
}

func (r *Reader) openPacked(name string) (logFile, error) {
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

func (f *packedFile) Name() string { return f.r.path + ":" + f.name }
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

// load makes the piece that has byte at the one in memory.
func (f *packedFile) load(at int64) error {
	if f.at <= at && at < f.at+int64(len(f.piece)) {
		return nil
	}
	err := f.r.db.QueryRow("SELECT at, data FROM files WHERE name = ? AND at <= ? ORDER BY at DESC LIMIT 1", f.name, at).Scan(&f.at, &f.piece)
	if err == nil && at >= f.at+int64(len(f.piece)) {
		err = fmt.Errorf("%w: a piece is missing", store.ErrCorrupt)
	}
	if err != nil {
		f.piece = nil
		return fmt.Errorf("%s at byte %d: %w", f.Name(), at, err)
	}
	return nil
}

// Source returns the database as one to copy from, as long as the reader is open.
func (r *Reader) Source(ctx context.Context) (store.Source, error) {
	names, err := r.fileNames(ctx)
	s := store.Source{Path: r.path, SQLite: r.path, Files: names,
		Open: func(name string) (store.SourceFile, error) { return r.openFile(name) }}
	if r.temp != "" {
		s.SQLite = filepath.Join(r.temp, copyName)
	}
	return s, err
}
