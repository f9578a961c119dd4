package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"ingero/internal/elffile"
)

// ErrNoFrames means that a file has no .eh_frame: its code keeps frame pointers, as Go's does, or
// cannot be unwound.
var ErrNoFrames = errors.New("no .eh_frame")

var errMachine = errors.New("code for another machine")

// Limits on files. The largest known libraries stay four times below.
const (
	maxSection = 256 << 20 // bytes of .eh_frame
	maxSpan    = 1 << 30   // bytes from the first function to the last
)

// Image is an ELF file as it is mapped.
type Image struct {
	m      machine
	loads  elffile.Loads
	frames section
	owner  uint32 // user to whom the file belongs
}

// section is .eh_frame, or the part of a segment that may contain it.
type section struct {
	off, addr, size uint64
}

// Open reads the headers of an ELF file. The Image does not keep r.
func Open(r io.ReaderAt) (*Image, error) {
	f, err := elffile.Open(r)
	if err != nil {
		return nil, fmt.Errorf("read ELF headers: %w", err)
	}
	im := &Image{loads: f.Loads}
	switch f.Machine {
	case elffile.X86:
		im.m = x86
	case elffile.ARM64:
		im.m = arm64
	default:
		return nil, errMachine
	}
	if s := f.Section(".eh_frame"); s.Size > 0 && !s.Compressed() {
		im.frames = section{s.Off, s.Addr, s.Size}
	} else if f.Unwind.Size > 0 {
		im.frames = im.behind(r, f.Unwind)
	}
	if im.frames.size > maxSection {
		return nil, fmt.Errorf(".eh_frame has %d bytes", im.frames.size)
	}
	return im, nil
}

// behind finds .eh_frame through its run-time header (.eh_frame_hdr), for files without section
// headers. Its terminator gives its length.
func (im *Image) behind(r io.ReaderAt, hdr elffile.Segment) section {
	var b [12]byte
	if _, err := r.ReadAt(b[:], int64(hdr.Off)); err != nil || b[0] != 1 {
		return section{}
	}
	c := cursor{b: b[4:]}
	at, ok := c.pointer(b[1], hdr.Addr+4)
	if !ok {
		return section{}
	}
	l, _ := im.loads.At(at)
	return section{off: l.Off, addr: at, size: min(l.Size, maxSection)}
}

// Bias returns what to subtract from an address in a mapping to get the file's own address. The
// mapping shows the file from offset on at start.
func (im *Image) Bias(start, offset uint64) (uint64, bool) { return im.loads.Bias(start, offset) }

// window reads a section through two buffers, since the records of two source files often alternate
// when they are in order of address.
type window struct {
	r    io.ReaderAt
	s    section
	step uint64 // bytes per read, unless a caller needs more
	buffer
	other buffer // used before the first one
}

// buffer has the bytes of a section from an offset on.
type buffer struct {
	at uint64
	b  []byte
}

// bytes returns n bytes from an offset in the section, if the buffer has them.
func (b *buffer) bytes(off, n uint64) ([]byte, bool) {
	at, have := off-b.at, uint64(len(b.b))
	if at > have || n > have-at {
		return nil, false
	}
	return b.b[at:][:n], true
}

// recordMax bounds the bytes read of one record; real ones have a few hundred.
const recordMax = 64 << 10

// bytes returns n bytes from an offset in the section, valid until the next call.
func (w *window) bytes(off, n uint64) ([]byte, bool) {
	if b, ok := w.buffer.bytes(off, n); ok {
		return b, true
	}
	w.buffer, w.other = w.other, w.buffer
	if b, ok := w.buffer.bytes(off, n); ok {
		return b, true
	}
	if n > recordMax || off > w.s.size || n > w.s.size-off {
		return nil, false
	}
	want := min(max(w.step, n), w.s.size-off)
	w.b = slices.Grow(w.b[:0], int(want))[:want]
	got, err := w.r.ReadAt(w.b, int64(w.s.off+off))
	if err != nil && !errors.Is(err, io.EOF) {
		got = 0
	}
	w.at, w.b = off, w.b[:got]
	return w.buffer.bytes(off, n)
}

// record returns the record at an offset: its contents b, which begin at offset body, and the
// offset of the next record. A length of 0 ends the section.
func (w *window) record(off uint64) (b []byte, body, next uint64, ok bool) {
	head, ok := w.bytes(off, 4)
	if !ok {
		return nil, 0, 0, false
	}
	n, body := uint64(binary.LittleEndian.Uint32(head)), off+4
	if n == 0xffffffff {
		if head, ok = w.bytes(off+4, 8); !ok {
			return nil, 0, 0, false
		}
		n, body = binary.LittleEndian.Uint64(head), off+12
	}
	if n < 4 || n > w.s.size {
		return nil, 0, 0, false
	}
	b, ok = w.bytes(body, min(n, recordMax))
	return b, body, body + n, ok
}
