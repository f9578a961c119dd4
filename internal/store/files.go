package store

import (
	"errors"
	"io"
)

// Whole returns how many of the first bytes of a file of recordings are worth a copy:
// of a log that is being written, or was cut off, all whole frames; of any other
// file all bytes, damaged ones too. It fails only where it cannot read.
func Whole(r io.ReaderAt, size int64) (int64, error) {
	f := frames{r: r, at: int64(len(magic)), size: size}
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
			return f.at, nil
		case errors.Is(err, ErrCorrupt):
			return size, nil
		case err != nil:
			return 0, err
		}
	}
}
