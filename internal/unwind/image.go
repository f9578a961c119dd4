package unwind

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrNoFrames means that a file has no .eh_frame: its code keeps frame pointers, as Go's does, or
// cannot be unwound.
var ErrNoFrames = errors.New("no .eh_frame")

var errMachine = errors.New("code for another machine")

// Limits on files. The largest known libraries stay four times below.
const (
	maxSection = 256 << 20 // bytes of .eh_frame
	maxSpan    = 1 << 30   // bytes from the first function to the last
	maxLoads   = 256
)

// Image is an ELF file as it is mapped.
type Image struct {
	m      machine
	loads  []load
	frames section
}

type load struct {
	off, addr, size uint64
	exec            bool
}

// section is .eh_frame, or the part of a segment that may contain it.
type section struct {
	off, addr, size uint64
}

// Open reads the headers of an ELF file. The Image does not keep r.
func Open(r io.ReaderAt) (*Image, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("read ELF headers: %w", err)
	}
	im := &Image{}
	switch {
	case f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB:
		return nil, errMachine
	case f.Machine == elf.EM_X86_64:
		im.m = x86
	case f.Machine == elf.EM_AARCH64:
		im.m = arm64
	default:
		return nil, errMachine
	}
	var hdr *elf.Prog
	for _, p := range f.Progs {
		switch {
		case p.Type == elf.PT_LOAD && len(im.loads) < maxLoads:
			im.loads = append(im.loads, load{off: p.Off, addr: p.Vaddr, size: p.Filesz, exec: p.Flags&elf.PF_X != 0})
		case p.Type == elf.PT_GNU_EH_FRAME:
			hdr = p
		}
	}
	if s := f.Section(".eh_frame"); s != nil && s.Type != elf.SHT_NOBITS && s.Flags&elf.SHF_COMPRESSED == 0 {
		im.frames = section{s.Offset, s.Addr, s.FileSize}
	} else if hdr != nil {
		im.frames = im.behind(r, hdr)
	}
	if im.frames.size > maxSection {
		return nil, fmt.Errorf(".eh_frame has %d bytes", im.frames.size)
	}
	return im, nil
}

// behind finds .eh_frame through its run-time header (.eh_frame_hdr), for files without section
// headers. Its terminator gives its length.
func (im *Image) behind(r io.ReaderAt, hdr *elf.Prog) section {
	var b [12]byte
	if _, err := r.ReadAt(b[:], int64(hdr.Off)); err != nil || b[0] != 1 {
		return section{}
	}
	c := cursor{b: b[4:]}
	at, ok := c.pointer(b[1], hdr.Vaddr+4)
	if !ok {
		return section{}
	}
	for _, l := range im.loads {
		if at >= l.addr && at-l.addr < l.size {
			return section{off: l.off + (at - l.addr), addr: at, size: min(l.size-(at-l.addr), maxSection)}
		}
	}
	return section{}
}

// Bias returns what to subtract from an address in a mapping to get the file's own address. The
// mapping shows the file from offset on at start.
func (im *Image) Bias(start, offset uint64) (uint64, bool) {
	const page = 64 << 10 // the largest page size
	for _, l := range im.loads {
		if l.exec && offset < l.off+l.size && offset+page > l.off {
			return start - offset + l.off - l.addr, true
		}
	}
	return 0, false
}

// window reads a section front to back through a buffer.
type window struct {
	r    io.ReaderAt
	s    section
	step uint64 // bytes per read, unless a caller needs more
	buf  []byte
	at   uint64 // offset in the section of buf
	have int
}

// recordMax bounds the bytes read of one record; real ones have a few hundred.
const recordMax = 64 << 10

// bytes returns n bytes from an offset in the section, valid until the next call.
func (w *window) bytes(off, n uint64) ([]byte, bool) {
	if n > recordMax || off > w.s.size || n > w.s.size-off {
		return nil, false
	}
	if off < w.at || off+n > w.at+uint64(w.have) {
		want := min(max(w.step, n), w.s.size-off)
		if uint64(len(w.buf)) < want {
			w.buf = make([]byte, want)
		}
		got, err := w.r.ReadAt(w.buf[:want], int64(w.s.off+off))
		if err != nil && !errors.Is(err, io.EOF) {
			got = 0
		}
		w.at, w.have = off, got
		if uint64(got) < n {
			return nil, false
		}
	}
	return w.buf[off-w.at:][:n], true
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
