package python

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// maxText bounds a name, in bytes of the process's memory.
const maxText = 4096

// memory reads objects of a process.
type memory struct{ r io.ReaderAt }

// maxReads bounds the reads of a process's memory by one search. 1,000 threads take some thousand.
const maxReads = 1 << 20

var errReads = fmt.Errorf("%w: too many reads of its memory", ErrMismatch)

// limited is the memory of a process for a number of reads.
type limited struct {
	Reader
	left int
}

// ReadAt implements [Reader]. The error is errReads after the last read.
func (l *limited) ReadAt(b []byte, at int64) (int, error) {
	if l.left <= 0 {
		return 0, errReads
	}
	l.left--
	return l.Reader.ReadAt(b, at)
}

func (m memory) read(b []byte, at uint64) error {
	if at == 0 || at > math.MaxInt64 {
		return fmt.Errorf("%w: address %#x", ErrMismatch, at)
	}
	if _, err := m.r.ReadAt(b, int64(at)); err != nil {
		return fmt.Errorf("read %d bytes at %#x: %w", len(b), at, err)
	}
	return nil
}

func (m memory) word(at uint64) (uint64, error) {
	var b [8]byte
	err := m.read(b[:], at)
	return binary.LittleEndian.Uint64(b[:]), err
}

// hasType reports whether an object's type has a name.
func (m memory) hasType(object uint64, want string) bool {
	t, err := m.word(object + typeOf)
	if err != nil {
		return false
	}
	name, err := m.word(t + typeName)
	if err != nil {
		return false
	}
	b := make([]byte, len(want)+1)
	return m.read(b, name) == nil && string(b) == want+"\x00"
}

// text reads a str.
func (m memory) text(at uint64, l *Layout) (string, error) {
	var head [40]byte
	if err := m.read(head[:], at); err != nil {
		return "", err
	}
	n, state := binary.LittleEndian.Uint64(head[strLength:]), head[strState]
	kind, from := state>>2&7, l.StrCompact
	if state&strCompact == 0 || kind != 1 && kind != 2 && kind != 4 {
		return "", fmt.Errorf("%w: a str of state %#x", ErrMismatch, state)
	}
	limit := maxText / uint64(kind)
	b := make([]byte, min(n, limit)*uint64(kind))
	if state&strASCII != 0 {
		from, kind = l.StrASCII, kindASCII
	}
	if len(b) > 0 {
		if err := m.read(b, at+uint64(from)); err != nil {
			return "", err
		}
	}
	return decodeText(b, kind, n > limit)
}

// Flags of PyASCIIObject.state, and the kernel's flags of a text: PY_STR_* and PY_KIND_ASCII.
const (
	strCompact = 1 << 5
	strASCII   = 1 << 6
	kindASCII  = 8
)

// decodeText converts the characters of a str to UTF-8. It replaces unprintable ones, since names
// are shown in terminals.
func decodeText(b []byte, kind uint8, cut bool) (string, error) {
	var out []byte
	width := int(kind)
	if kind == kindASCII {
		width = 1
	}
	if width != 1 && width != 2 && width != 4 {
		return "", fmt.Errorf("%w: a str of kind %d", ErrMismatch, kind)
	}
	for ; len(b) >= width; b = b[width:] {
		var r rune
		switch width {
		case 1:
			r = rune(b[0])
		case 2:
			r = rune(binary.LittleEndian.Uint16(b))
		case 4:
			r = rune(min(binary.LittleEndian.Uint32(b), utf8.MaxRune+1))
		}
		if kind == kindASCII && r >= 0x80 {
			return "", fmt.Errorf("%w: an ASCII str with %#x", ErrMismatch, r)
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			r = utf8.RuneError
		}
		out = utf8.AppendRune(out, r)
	}
	if cut {
		out = append(out, "…"...)
	}
	return string(out), nil
}

// maxLines bounds a line table, in bytes: enough for a hundred thousand instructions.
const maxLines = 1 << 20

// bytes reads a bytes object.
func (m memory) bytes(at uint64) ([]byte, error) {
	n, err := m.word(at + sizeOf)
	if err != nil {
		return nil, err
	}
	if n > maxLines {
		return nil, fmt.Errorf("%w: %d bytes of lines", ErrMismatch, n)
	}
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	return b, m.read(b, at+bytesData)
}
