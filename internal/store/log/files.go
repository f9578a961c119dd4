package log

import (
	"errors"
	"io"
)

// CompleteBytes returns how many leading bytes of a recording's file are worth copying: all whole
// frames of an unsealed log, and all bytes of any other file, even damaged ones. It fails only on a
// read error.
func CompleteBytes(r io.ReaderAt, size int64) (int64, error) {
	f := Reader{From: r, Offset: int64(len(Magic)), Size: size}
	var head [len(Magic)]byte
	switch err := f.Fill(head[:], 0); {
	case errors.Is(err, io.EOF), err == nil && string(head[:]) != Magic:
		return size, nil
	case err != nil:
		return 0, err
	}
	for {
		switch _, _, _, err := f.Next(); {
		case errors.Is(err, io.EOF):
			return f.Offset, nil
		case errors.Is(err, ErrCorrupt):
			return size, nil
		case err != nil:
			return 0, err
		}
	}
}
