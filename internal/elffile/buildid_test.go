package elffile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

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
		{name: "empty", change: func([]byte) []byte { return nil }, err: ErrFormat},
		{name: "short", change: func(b []byte) []byte { return b[:63] }, err: ErrFormat},
		{name: "text", change: func([]byte) []byte { return bytes.Repeat([]byte("hello "), 100) }, err: ErrFormat},
		{name: "32-bit", change: func(b []byte) []byte { b[4] = 1; return b }, err: ErrFormat},
		{name: "big-endian", change: func(b []byte) []byte { b[5] = 2; return b }, err: ErrFormat},
		{name: "many program headers", change: func(b []byte) []byte { le.PutUint16(b[56:], 0xffff); return b }, err: ErrFormat},
		{name: "count of sections elsewhere", change: func(b []byte) []byte { clear(b[60:62]); return b }, err: ErrFormat},
		{name: "names of a terabyte that say they are none", change: func(b []byte) []byte {
			le.PutUint32(b[512+4:], 1) // SHT_PROGBITS
			le.PutUint64(b[512+32:], 1<<40)
			return b
		}, err: ErrFormat},
		{name: "a table of symbols nine times over", change: func(b []byte) []byte {
			le.PutUint16(b[60:], 9)
			for i := range 9 {
				s := b[512+i*64:]
				le.PutUint32(s[4:], Symtab)
				le.PutUint64(s[32:], maxTable/4)
				le.PutUint32(s[40:], uint32(i))
			}
			return b
		}, err: ErrFormat},
		{name: "symbols of a terabyte", change: func(b []byte) []byte { le.PutUint64(b[512+96:], 1<<40); return b }, err: ErrFormat},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := testkit.ELF('A')
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
