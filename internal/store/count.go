package store

import (
	"errors"
	"io"
)

// CountCalls returns how many calls a segment has, and when the first of them began.
// Of a sealed one it reads the index; of another the frames, and decodes none.
func CountCalls(files Files, s Segment) (n uint64, from int64, err error) {
	file, err := OpenSegment(files, &s)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	seg, err := openSegment(file, file.Size())
	if err != nil {
		return 0, 0, err
	}
	count := func(k int, first int64) {
		if n == 0 || first < from {
			from = first
		}
		n += uint64(k)
	}
	if seg.index != nil {
		for _, f := range seg.index.calls {
			count(f.n, f.first)
		}
		return n, from, nil
	}
	for {
		kind, _, body, err := seg.frames.next()
		switch {
		case errors.Is(err, io.EOF):
			return n, from, nil
		case errors.Is(err, ErrCorrupt):
			continue
		case err != nil:
			return n, from, err
		case kind == frameCalls:
			k, first, _ := span(body)
			count(k, first)
		}
	}
}
