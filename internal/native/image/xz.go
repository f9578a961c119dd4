package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/mikelolasagasti/xz"
)

var errXZ = errors.New("unsupported xz format")

// maxDictionary is the dictionary of xz -9, the largest of its presets, in bytes. The format allows
// 4 GiB, and a hostile file only needs to state it.
const maxDictionary = 64 << 20

// unxz decompresses the first xz stream of b. More than limit bytes are an error.
func unxz(b []byte, limit int) (out []byte, err error) {
	// The decoder indexes its tables with values of the file. It has had a panic before.
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("%w: %v", errXZ, p)
		}
	}()
	r, err := xz.NewReader(bytes.NewReader(b), maxDictionary)
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	if out, err = io.ReadAll(io.LimitReader(r, int64(limit)+1)); err != nil {
		return nil, err
	}
	if len(out) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errXZ, limit)
	}
	return out, nil
}
