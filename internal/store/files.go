package store

import (
	"errors"
	"io"
)

// CompleteBytes returns how many leading bytes of a recording's file are worth copying: all whole
// frames of an unsealed log, and all bytes of any other file, even damaged ones. It fails only on a
// read error.
func CompleteBytes(r io.ReaderAt, size int64) (int64, error) {
	f := frames{r: r, off: int64(len(magic)), size: size}
	var head [len(magic)]byte
	switch err := f.read(head[:], 0); {
	case errors.Is(err, io.EOF), err == nil && string(head[:]) != magic:
		return size, nil
	case err != nil:
		return 0, err
	}
	for {
		switch _, _, _, err := f.next(); {
		case errors.Is(err, io.EOF):
			return f.off, nil
		case errors.Is(err, ErrCorrupt):
			return size, nil
		case err != nil:
			return 0, err
		}
	}
}
