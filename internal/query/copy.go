package query

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"ingero/internal/store"
)

// RoomError means that a directory has no room for a copy of a database that can be read only in a copy.
type RoomError struct {
	Dir string
	Err error
}

// Error names the directory and the cause.
func (e *RoomError) Error() string {
	return fmt.Sprintf("no room in %s for a copy of the database, which reading it needs: %v", e.Dir, e.Err)
}

// Unwrap returns the cause.
func (e *RoomError) Unwrap() error { return e.Err }

// full reports whether a directory has no room for size bytes and a few more. SQLite's errors do not tell: it
// reports a full quota like a failed disk, and some damage of a file like a full disk.
func full(dir string, size int64) bool {
	f, err := os.CreateTemp(dir, "ingero-room-")
	if err != nil {
		return store.Full(err)
	}
	piece := make([]byte, copyPiece)
	for left := size + copyPiece; left > 0 && err == nil; left -= copyPiece {
		_, err = f.Write(piece)
	}
	return store.Full(errors.Join(err, f.Close(), os.Remove(f.Name())))
}

// copyTries is how often a copy of files is made before it fails. A writer starts its
// write-ahead log anew after about 1,000 pages, so the second copy nearly always succeeds.
const copyTries = 10

// copyFiles copies a SQLite file and its write-ahead log, which SQLite cannot read in place. The copy
// is of one moment: if a process started the log anew meanwhile, it may lack pages that the
// copied file does not have yet, and both are copied again. file copies one file.
func copyFiles(ctx context.Context, to, from string, file func(ctx context.Context, to, from string) error) error {
	for range copyTries {
		before, err := generationOf(from)
		if err != nil {
			return err
		}
		for _, suffix := range []string{"", "-wal"} {
			err := file(ctx, to+suffix, from+suffix)
			if suffix != "" && errors.Is(err, fs.ErrNotExist) {
				err = os.RemoveAll(to + suffix) // of an earlier try
			}
			if err != nil {
				return err
			}
		}
		after, err := generationOf(from)
		if err != nil {
			return err
		}
		if before == after {
			return nil
		}
	}
	return fmt.Errorf("%s changes too fast to be copied", from)
}

// generation identifies a state of a SQLite file, which changes that are in its write-ahead log
// leave unchanged.
type generation struct {
	log            [32]byte // header of the write-ahead log, which has a salt
	logged         bool
	size, modified int64 // of the file, if there is no log
}

// generationOf returns the current generation of a SQLite file.
func generationOf(path string) (g generation, err error) {
	wal, err := os.Open(path + "-wal")
	if err == nil {
		_, err = io.ReadFull(wal, g.log[:])
		err = errors.Join(err, wal.Close())
	}
	if err == nil {
		g.logged = true
		return g, nil
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return g, err
	}
	s, err := os.Stat(path)
	if err != nil {
		return g, err
	}
	return generation{size: s.Size(), modified: s.ModTime().UnixNano()}, nil
}

// copyPiece is how many bytes of a file are copied before the context is checked.
const copyPiece = 16 << 20

// copyFile copies a file over another one, if there is one.
func copyFile(ctx context.Context, to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(dst, src, copyPiece)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, dst.Close())
}
