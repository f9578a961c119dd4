package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// HeadKind returns the kind of a frame; ok is false if there is no whole head.
func HeadKind(r io.ReaderAt, at int64) (kind Kind, ok bool) {
	var head [HeadSize]byte
	if n, _ := r.ReadAt(head[:], at); n < HeadSize {
		return 0, false
	}
	return Kind(head[4]), isHead(head[:])
}

func isHead(b []byte) bool {
	n := int64(binary.LittleEndian.Uint32(b))
	return b[6] == 0 && b[7] == 0 && b[4] != 0 && n <= MaxBody && binary.LittleEndian.Uint32(b[12:]) == Checksum(b[:12])
}

// Resync returns the offset of the first whole frame at or after from, or size if there is none.
func Resync(r io.ReaderAt, from, size int64) (int64, error) {
	const step = 1 << 20
	buf := make([]byte, min(step+HeadSize, max(size-from, 0)))
	for at := from; at+HeadSize <= size; at += step {
		n, err := r.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("read the recording at byte %d: %w", at, err)
		}
		for i := 0; i+HeadSize <= n && i < step; i++ {
			if !isHead(buf[i : i+HeadSize]) {
				continue
			}
			f := Reader{From: r, Offset: at + int64(i), Size: size}
			if _, _, _, err := f.Next(); err == nil {
				return at + int64(i), nil
			}
		}
	}
	return size, nil
}
