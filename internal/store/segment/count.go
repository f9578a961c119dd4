package segment

import (
	"errors"
	"ingero/internal/store/log"
	"io"
)

// CountCalls returns the number of calls in a segment and the start of the first. It reads the
// index of a sealed segment, else the frame heads; it decodes no frame.
func CountCalls(files log.Files, s Info) (n uint64, from int64, err error) {
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
		kind, _, body, err := seg.frames.Next()
		switch {
		case errors.Is(err, io.EOF):
			return n, from, nil
		case errors.Is(err, log.ErrCorrupt):
			continue
		case err != nil:
			return n, from, err
		case kind == frameCalls:
			k, first, _ := span(body)
			count(k, first)
		}
	}
}
