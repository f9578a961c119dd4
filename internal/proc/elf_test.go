package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
)

// elfBytes makes an ELF file with a header, a note segment and two sections.
func elfBytes(letter byte) []byte {
	le := binary.LittleEndian
	h := make([]byte, elfHeaderLen)
	copy(h, "\x7fELF\x02\x01\x01")
	le.PutUint16(h[16:], 3)   // ET_DYN
	le.PutUint64(h[32:], 64)  // program headers
	le.PutUint64(h[40:], 512) // section headers
	le.PutUint16(h[54:], 56)  // size of a program header
	le.PutUint16(h[56:], 2)   // number of program headers
	le.PutUint16(h[58:], 64)  // size of a section header
	le.PutUint16(h[60:], 2)   // number of section headers
	b := append(h, make([]byte, 4096-len(h))...)
	le.PutUint32(b[64:], 1) // PT_LOAD
	p := b[64+56:]
	le.PutUint32(p[0:], ptNote)
	le.PutUint64(p[8:], 256)
	n := note(1, "GNU\x00", []byte{1, 2, 3}) // an ABI note before it
	n = append(n, note(ntGNUBuildID, "GNU\x00", bytes.Repeat([]byte{letter}, 20))...)
	copy(b[256:], n)
	le.PutUint64(p[32:], uint64(len(n)))
	le.PutUint64(p[48:], 4)
	s := b[512+64:]
	le.PutUint32(s[4:], shtDynsym)
	le.PutUint64(s[32:], 24)
	return b
}

func note(kind uint32, name string, desc []byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(name)))
	b = le.AppendUint32(b, uint32(len(desc)))
	b = append(le.AppendUint32(b, kind), name...)
	b = append(b, desc...)
	return append(b, make([]byte, -len(b)&3)...)
}

func TestBuildID(t *testing.T) {
	le := binary.LittleEndian
	id := strings.Repeat("41", 20)
	for _, tt := range []struct {
		name   string
		change func([]byte) []byte
		want   string
		err    error
	}{
		{name: "as linked", want: id},
		{name: "no sections", change: func(b []byte) []byte { clear(b[40:48]); return b }, want: id},
		{name: "no notes", change: func(b []byte) []byte { clear(b[120:124]); return b }},
		{name: "note cut off", change: func(b []byte) []byte { le.PutUint64(b[152:], 40); return b }},
		{name: "huge note", change: func(b []byte) []byte { le.PutUint64(b[152:], 1<<40); return b }},
		{name: "note at the end of the world", change: func(b []byte) []byte { le.PutUint64(b[128:], 1<<63+5); return b }},
		{name: "huge name", change: func(b []byte) []byte { le.PutUint32(b[256:], 0xfffffffd); return b }},
		{name: "empty", change: func([]byte) []byte { return nil }, err: errNotELF},
		{name: "short", change: func(b []byte) []byte { return b[:63] }, err: errNotELF},
		{name: "text", change: func([]byte) []byte { return bytes.Repeat([]byte("hello "), 100) }, err: errNotELF},
		{name: "32-bit", change: func(b []byte) []byte { b[4] = 1; return b }, err: errNotELF},
		{name: "big-endian", change: func(b []byte) []byte { b[5] = 2; return b }, err: errNotELF},
		{name: "many program headers", change: func(b []byte) []byte { le.PutUint16(b[56:], 0xffff); return b }, err: errNotELF},
		{name: "count of sections elsewhere", change: func(b []byte) []byte { clear(b[60:62]); return b }, err: errNotELF},
		{name: "names of a terabyte that say they are none", change: func(b []byte) []byte {
			le.PutUint32(b[512+4:], 1) // SHT_PROGBITS
			le.PutUint64(b[512+32:], 1<<40)
			return b
		}, err: errNotELF},
		{name: "a table of symbols nine times over", change: func(b []byte) []byte {
			le.PutUint16(b[60:], 9)
			for i := range 9 {
				s := b[512+i*64:]
				le.PutUint32(s[4:], shtSymtab)
				le.PutUint64(s[32:], maxTable/4)
				le.PutUint32(s[40:], uint32(i))
			}
			return b
		}, err: errNotELF},
		{name: "symbols of a terabyte", change: func(b []byte) []byte { le.PutUint64(b[512+96:], 1<<40); return b }, err: errNotELF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := elfBytes('A')
			if tt.change != nil {
				b = tt.change(b)
			}
			got, err := BuildID(bytes.NewReader(b))
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("BuildID = %q, %v, want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// BuildID reads the test binary itself, which a real linker wrote.
func TestBuildIDOfRealFile(t *testing.T) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := BuildID(f); err != nil {
		t.Errorf("BuildID of the test binary: %v", err)
	}
}

func FuzzBuildID(f *testing.F) {
	f.Add(elfBytes('A'))
	f.Add(elfBytes('B')[:200])
	f.Add([]byte("\x7fELF\x02\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := BuildID(bytes.NewReader(b))
		if err != nil && id != "" {
			t.Errorf("BuildID = %q and %v", id, err)
		}
		if len(id) > 2*maxBuildID {
			t.Errorf("BuildID of %d digits", len(id))
		}
	})
}
