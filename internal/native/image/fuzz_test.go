package image

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"ingero/internal/elffile"
	"ingero/internal/testkit"
)

// small builds small programs with all sections, with several compilers.
func small(f testing.TB) (out [][]byte) {
	f.Helper()
	testkit.NeedTool(f, "gcc", "clang-14", "objcopy")
	dir := f.TempDir()
	src := filepath.Join(dir, "a.c")
	text := `static int in2(int x) { return x + 7; }
static inline __attribute__((always_inline)) int in(int x) { return x * 3 + (x > 2 ? in2(x) : 0); }
int out(int x) { return in(x) + in(x + 1); }
__attribute__((section(".text.far"))) int far_away(int x) { return out(in(x)); }
`
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	for i, argv := range [][]string{
		{"gcc", "-O2", "-gdwarf-5"}, {"gcc", "-O2", "-gdwarf-4"}, {"gcc", "-O2", "-gdwarf-5", "-gz=zlib"}, {"clang-14", "-O2", "-gdwarf-5"},
	} {
		path := filepath.Join(dir, string(rune('a'+i)))
		argv = append(argv, "-shared", "-nostdlib", "-Wl,--build-id=none,-z,noseparate-code,-z,norelro", "-fno-asynchronous-unwind-tables", "-o", path, src)
		if text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			f.Fatalf("%v: %v\n%s", argv, err, text)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// memoryFile is a file in memory.
type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

// countingFile counts the bytes read.
type countingFile struct {
	memoryFile
	read int
}

func (f *countingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.memoryFile.ReadAt(b, off)
	f.read += n + readCost
	return n, err
}

// look looks up addresses all over a file, and addr. It fails if more bytes are read than the bound
// for the file's size.
func look(t testing.TB, b []byte, addr uint64) (frames int, err error) {
	t.Helper()
	f := &countingFile{memoryFile: memoryFile{bytes.NewReader(b)}}
	m, err := Open(f, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = m.Close() }()
	addrs := []uint64{addr, 0, ^uint64(0)}
	for _, l := range m.Layout()[:min(4, len(m.Layout()))] {
		for at := uint64(0); l.Exec && at < min(l.Size, 1<<10); at += max(5, l.Size/16) {
			addrs = append(addrs, l.Addr+at)
		}
	}
	for _, p := range m.Find(addrs) {
		frames += len(p.Frames)
	}
	// Headers and symbols have no budget: each is read once, and a few per address.
	most := 4*readCost*len(b) + len(addrs)*maxAliases*(elffile.MaxName+2*readCost)
	if d := m.dwarf; d != nil {
		limit := d.limit(len(addrs))
		most += limit
		if d.work.left < -limit {
			t.Errorf("%d bytes were wanted behind the end of a budget of %d", -d.work.left, limit)
		}
	}
	if f.read > most {
		t.Errorf("%d bytes are read of a file of %d, at most %d should be", f.read, len(b), most)
	}
	return frames, nil
}

// A hostile file takes no more work than a valid one of its size. Small files of several compilers
// are in testdata/fuzz, built from small's source with -shared -nostdlib -O2
// -Wl,-z,noseparate-code.
func FuzzFind(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		if len(b) <= 1<<18 {
			_, _ = look(t, b, addr)
		}
	})
}

// No damaged byte of the headers and tables, and no huge length, crashes or hangs a lookup.
func TestDamagedFiles(t *testing.T) {
	for i, good := range small(t) {
		if n, err := look(t, good, 0x1000); err != nil || n == 0 {
			t.Fatalf("%d frames, %v", n, err)
		}
		for at := i; at < len(good); at += 4 {
			for _, put := range []uint64{0, 1<<64 - 1, 0x80} {
				b := bytes.Clone(good)
				switch {
				case put == 0x80:
					b[at] ^= 0x80
				case at+4 <= len(b):
					binary.LittleEndian.PutUint32(b[at:], uint32(put))
				}
				_, _ = look(t, b, 0x1000)
			}
		}
		for n := 0; n < len(good); n += 41 {
			_, _ = look(t, good[:n], 0x1000)
		}
	}
}

// Work is bounded for a file whose units all share one long abbreviation table, which is read for
// each: it would grow with the square of the file's size.
func TestWorkIsBounded(t *testing.T) {
	const units = 100_000
	var info, abbrev []byte
	for code := uint64(1); code < 20_000; code++ {
		abbrev = binary.AppendUvarint(abbrev, code)
		abbrev = append(abbrev, tagSubprogram, 0, atName, formData1, 0, 0)
	}
	abbrev = append(appendRoot(abbrev, 20_000), 0)
	for range units {
		info = appendUnit(info, 20_000, nil)
	}
	m := overworked(t, info, abbrev)
	if len(m.dwarf.units) != 0 {
		t.Error("it is asked again")
	}
}

// Flag attributes that take no space count as work.
func TestWorkOfFlagsIsBounded(t *testing.T) {
	const attributes, entries = 60_000, 4_000
	abbrev := appendRoot(nil, 1)
	abbrev = append(abbrev, 2, tagSubprogram, 0)
	abbrev = append(abbrev, bytes.Repeat([]byte{atCallLine, formPresent}, attributes)...)
	overworked(t, appendUnit(nil, 1, bytes.Repeat([]byte{2}, entries)), append(abbrev, 0, 0, 0))
}

// appendRoot appends the abbreviation of a unit's first entry.
func appendRoot(b []byte, code uint64) []byte {
	return append(binary.AppendUvarint(b, code), 0x11, 1, atLowPC, formAddr, atHighPC, formData4, 0, 0)
}

// appendUnit appends a unit with 16 bytes of code at 0x100.
func appendUnit(info []byte, code uint64, entries []byte) []byte {
	unit := binary.AppendUvarint([]byte{4, 0, 0, 0, 0, 0, 8}, code)
	unit = binary.LittleEndian.AppendUint64(unit, 0x100)
	unit = append(append(unit, 16, 0, 0, 0), entries...)
	return append(binary.LittleEndian.AppendUint32(info, uint32(len(unit))), unit...)
}

// overworked looks up an address in a file with this debug information, and checks that it takes too much work.
func overworked(t *testing.T, info, abbrev []byte) *Image {
	t.Helper()
	m, err := Open(memoryFile{bytes.NewReader(small(t)[1])}, nil) // DWARF 4
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.main.Sections {
		s := &m.main.Sections[i]
		if b := map[string][]byte{".debug_info": info, ".debug_abbrev": abbrev}[s.Name]; b != nil {
			s.Data = elffile.Data{R: bytes.NewReader(b), Size: uint64(len(b))}
		}
	}
	m.Find([]uint64{0x100})
	if left := m.dwarf.work.left; left >= 0 || left < -maxWork/2 {
		t.Errorf("%d bytes are left", left)
	}
	return m
}
