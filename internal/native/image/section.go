package image

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// MaxName bounds a name, in bytes.
const MaxName = 16 << 10

var errBounds = errors.New("outside of its section")

// section is a part of a file. The zero value is empty.
type section struct {
	r         io.ReaderAt
	off, size uint64
	packed    bool // compressed, with a header
	budget    *budget
}

// budget bounds the bytes read for one Find, since a file can make its reader read the same bytes
// again and again.
type budget struct{ left int }

// readCost is the fixed cost of a read, in bytes.
const readCost = 64

// spend deducts n bytes, and returns false when nothing is left. A nil budget is unlimited.
func (b *budget) spend(n int) bool {
	if b == nil {
		return true
	}
	b.left -= n + readCost
	return b.left >= 0
}

func readAt(r io.ReaderAt, b []byte, off uint64) error {
	if off > 1<<62 {
		return fmt.Errorf("%w: offset %#x", ErrFormat, off)
	}
	if n, err := r.ReadAt(b, int64(off)); n < len(b) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}

// within reports whether a file has n bytes from an offset on. Only then is a size in a header
// trusted, and memory allocated for it.
func within(r io.ReaderAt, off, n uint64) bool {
	if off > 1<<62 || n > 1<<62 {
		return false
	}
	var last [1]byte
	return n == 0 || readAt(r, last[:], off+n-1) == nil
}

// read fills b from an offset on.
func (s section) read(b []byte, at uint64) error {
	if at > s.size || uint64(len(b)) > s.size-at {
		return errBounds
	}
	if len(b) == 0 {
		return nil
	}
	if !s.budget.spend(len(b)) {
		return errBounds
	}
	return readAt(s.r, b, s.off+at)
}

// some returns up to n bytes from an offset on, in buf if it is large enough.
func (s section) some(buf []byte, at uint64, n int) ([]byte, error) {
	if at > s.size {
		return nil, errBounds
	}
	n = int(min(uint64(n), s.size-at))
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	return buf[:n], s.read(buf[:n], at)
}

// all returns the whole section, unless it has more than limit bytes.
func (s section) all(limit uint64) ([]byte, error) {
	if s.size == 0 || s.size > limit {
		return nil, errBounds
	}
	b := make([]byte, s.size)
	return b, s.read(b, 0)
}

// text returns the text at an offset, "" if there is none.
func (s section) text(at uint64) string {
	if at >= s.size {
		return ""
	}
	var small [128]byte
	buf := small[:]
	for {
		b, err := s.some(buf, at, len(buf))
		if err != nil {
			return ""
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(b[:end])
		}
		if len(b) < len(buf) || len(buf) >= MaxName {
			return ""
		}
		buf = make([]byte, min(8*len(buf), MaxName))
	}
}

// Constants of the ELF specification: the header of a compressed section.
const (
	chSize = 24
	chZlib = 1
	chZstd = 2
)

// maxRatio is the maximum ratio of decompression: zlib's own limit. Names and tables have less than
// a hundredth of it.
const maxRatio = 1032

// unpacked returns the maximum size accepted for n compressed bytes.
func unpacked(n uint64) uint64 { return 64<<10 + min(n, 1<<40)*maxRatio }

// unpack returns the decompressed section. More than limit bytes are an error.
func (s section) unpack(limit uint64) (section, error) {
	var h [chSize]byte
	kind := uint32(chZlib)
	var size, at uint64
	switch {
	case s.packed:
		if err := s.read(h[:], 0); err != nil {
			return section{}, err
		}
		kind, size, at = le.Uint32(h[:]), le.Uint64(h[8:]), chSize
	default: // .zdebug_*: "ZLIB" and the size, big endian
		if err := s.read(h[:12], 0); err != nil {
			return section{}, err
		}
		if string(h[:4]) != "ZLIB" {
			return section{}, ErrFormat
		}
		for _, c := range h[4:12] {
			size = size<<8 | uint64(c)
		}
		at = 12
	}
	if size > min(limit, unpacked(s.size)) {
		return section{}, fmt.Errorf("%d bytes of debugging information: %w", size, errBounds)
	}
	from := io.NewSectionReader(s.r, int64(s.off+at), int64(s.size-at))
	var r io.Reader
	switch kind {
	case chZlib:
		z, err := zlib.NewReader(from)
		if err != nil {
			return section{}, err
		}
		r = z
	case chZstd:
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return section{}, err
		}
		defer z.Close()
		r = z
	default:
		return section{}, fmt.Errorf("%w: compression %d", ErrFormat, kind)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return section{}, err
	}
	return inMemory(b), nil
}

func inMemory(b []byte) section { return section{r: bytes.NewReader(b), size: uint64(len(b))} }
