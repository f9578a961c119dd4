package elffile

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// MaxName bounds the name of a symbol, in bytes.
const MaxName = 16 << 10

var errBounds = errors.New("outside of its section")

// Data is a part of a file, which is read on demand. The zero value is empty.
type Data struct {
	R         io.ReaderAt
	Off, Size uint64
}

// Section is a section of a file. Its Data is empty if the file does not have all of it.
type Section struct {
	Name string
	Addr uint64
	Data
	claimed uint64 // size by its header
	kind    uint32
	link    int
	flags   uint64
}

// Contains reports whether an address is in the section.
func (s *Section) Contains(addr uint64) bool { return addr-s.Addr < s.claimed }

// Constant reports whether the section has constants of the program.
func (s *Section) Constant() bool {
	return s.kind == shtProgbits && s.flags&(shfWrite|shfExec|shfCompressed) == 0
}

// Compressed reports whether Contents decompresses the section.
func (s *Section) Compressed() bool {
	return s.flags&shfCompressed != 0 || strings.HasPrefix(s.Name, ".zdebug_")
}

func readAt(r io.ReaderAt, b []byte, off uint64) error {
	if off > 1<<62 {
		return fmt.Errorf("%w: offset %#x", ErrFormat, off)
	}
	n, err := r.ReadAt(b, int64(off))
	switch {
	case n == len(b):
		return nil
	case err == nil, errors.Is(err, io.EOF):
		return ErrFormat
	}
	return err
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

// Read fills b from an offset on.
func (d Data) Read(b []byte, at uint64) error {
	if at > d.Size || uint64(len(b)) > d.Size-at {
		return errBounds
	}
	if len(b) == 0 {
		return nil
	}
	return readAt(d.R, b, d.Off+at)
}

// Some returns up to n bytes from an offset on, in buf if it is large enough.
func (d Data) Some(buf []byte, at uint64, n int) ([]byte, error) {
	if at > d.Size {
		return nil, errBounds
	}
	n = int(min(uint64(n), d.Size-at))
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	return buf[:n], d.Read(buf[:n], at)
}

// All returns everything, unless it is empty or has more than limit bytes.
func (d Data) All(limit uint64) ([]byte, error) {
	if d.Size == 0 || d.Size > limit {
		return nil, errBounds
	}
	b := make([]byte, d.Size)
	return b, d.Read(b, 0)
}

// Text returns the text at an offset, "" if there is none of at most MaxName bytes.
func (d Data) Text(at uint64) string {
	if at >= d.Size {
		return ""
	}
	var small [128]byte
	buf := small[:]
	for {
		b, err := d.Some(buf, at, len(buf))
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

// name returns the name at an offset of a table, nil if there is none of less than limit bytes.
func name(table []byte, at uint32, limit int) []byte {
	if uint64(at) >= uint64(len(table)) {
		return nil
	}
	b := table[at:]
	b = b[:min(len(b), limit)]
	return b[:max(0, bytes.IndexByte(b, 0))]
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

// MaxUnpacked returns the maximum size accepted for n compressed bytes.
func MaxUnpacked(n uint64) uint64 { return 64<<10 + min(n, 1<<40)*maxRatio }

// Contents returns the content of the section, decompressed if it is compressed. More than limit
// bytes are an error.
func (s *Section) Contents(limit uint64) ([]byte, error) {
	if !s.Compressed() {
		return s.All(limit)
	}
	kind, size, at, err := s.compression()
	if err != nil {
		return nil, err
	}
	if size > min(limit, MaxUnpacked(s.Size)) {
		return nil, fmt.Errorf("%d bytes of debugging information: %w", size, errBounds)
	}
	var r io.Reader
	from := io.NewSectionReader(s.R, int64(s.Off+at), int64(s.Size-at))
	switch kind {
	case chZlib:
		if r, err = zlib.NewReader(from); err != nil {
			return nil, err
		}
	case chZstd:
		z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("%w: compression %d", ErrFormat, kind)
	}
	b := make([]byte, size)
	_, err = io.ReadFull(r, b)
	return b, err
}

// compression returns how the section is compressed, its decompressed size, and where the
// compressed bytes begin.
func (s *Section) compression() (kind uint32, size, at uint64, err error) {
	var h [chSize]byte
	if s.flags&shfCompressed != 0 {
		err = s.Read(h[:], 0)
		return le.Uint32(h[:]), le.Uint64(h[8:]), chSize, err
	}
	// .zdebug_*: "ZLIB" and the size, big endian
	if err = s.Read(h[:12], 0); err == nil && string(h[:4]) != "ZLIB" {
		err = ErrFormat
	}
	return chZlib, binary.BigEndian.Uint64(h[4:]), 12, err
}

// DebugLink returns the name and the checksum of the separate debug file (.gnu_debuglink).
func (f *File) DebugLink() (name string, crc uint32) {
	b, err := f.Section(".gnu_debuglink").All(4096)
	if err != nil {
		return "", 0
	}
	end := bytes.IndexByte(b, 0)
	if end <= 0 || (end+4)&^3+4 > len(b) || bytes.IndexByte(b[:end], '/') >= 0 {
		return "", 0
	}
	return string(b[:end]), le.Uint32(b[(end+4)&^3:])
}

// DebugAltLink returns the path and the build id of the file to which dwz moved common parts
// (.gnu_debugaltlink).
func (f *File) DebugAltLink() (path, id string) {
	b, err := f.Section(".gnu_debugaltlink").All(4096)
	if err != nil {
		return "", ""
	}
	end := bytes.IndexByte(b, 0)
	if end <= 0 || end+1 >= len(b) || len(b)-end-1 > maxBuildID {
		return "", ""
	}
	return string(b[:end]), hex.EncodeToString(b[end+1:])
}
