package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"ingero/internal/testkit"
)

// link compiles a library with versions, a soname and debugging information.
func link(t testing.TB, args ...string) string {
	t.Helper()
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.c":  "int cudaMalloc(void) { return 1; } int cudaFree(void) { return cudaMalloc(); } static int here(void) { return 3; } int (*there)(void) = here;",
		"v.ld": "one { global: cudaMalloc; local: nothing; }; two { global: *; } one;",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("gcc", append([]string{"-g", "-shared", "-fPIC", "-Wl,--version-script=v.ld,-soname,libx.so.12", "-o", "x.so", "a.c"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return filepath.Join(dir, "x.so")
}

// files are real ELF files.
func files(t testing.TB) []string {
	paths := []string{"/proc/self/exe", link(t), link(t, "-Wl,--build-id=none", "-s")}
	for _, pattern := range []string{"/lib/*/libc.so.6", "/usr/lib/*/libstdc++.so.6"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// The package reads in real files what debug/elf reads.
func TestAgainstDebugELF(t *testing.T) {
	for _, path := range files(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			got, err := Open(r)
			if err != nil {
				t.Fatal(err)
			}
			want, err := elf.NewFile(r)
			if err != nil {
				t.Fatal(err)
			}
			compareHeaders(t, got, want)
			symbols, err := want.DynamicSymbols()
			compareFunctions(t, got, Dynsym, symbols, err)
			symbols, err = want.Symbols()
			compareFunctions(t, got, Symtab, symbols, err)
			var versions []string
			defined, _ := want.DynamicVersions()
			for _, v := range defined {
				versions = append(versions, v.Name)
			}
			if !slices.EqualFunc(got.Versions(), versions, func(v Version, name string) bool { return v.Name == name && v.Base == (name == versions[0]) }) {
				t.Errorf("versions %v, want %v", got.Versions(), versions)
			}
			if names, _ := want.DynString(elf.DT_SONAME); got.Soname() != strings.Join(names, "") {
				t.Errorf("soname %q, want %q", got.Soname(), names)
			}
		})
	}
}

func compareHeaders(t *testing.T, got *File, want *elf.File) {
	t.Helper()
	if got.Machine != int(want.Machine) || len(got.Sections) != len(want.Sections) {
		t.Fatalf("machine %d and %d sections, want %d and %d", got.Machine, len(got.Sections), want.Machine, len(want.Sections))
	}
	for i, s := range want.Sections {
		size := s.FileSize
		if s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_NULL {
			size = 0
		}
		if g := got.Sections[i]; g.Name != s.Name || g.Addr != s.Addr || g.Size != size {
			t.Errorf("section %d: %+v, want %+v", i, g, s.SectionHeader)
		}
	}
	for _, p := range want.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		l, ok := got.Loads.At(p.Vaddr + 1)
		if !ok || l.Off != p.Off+1 || l.Size != p.Filesz-1 || l.Exec != (p.Flags&elf.PF_X != 0) || got.Loads.Code(p.Vaddr) != l.Exec {
			t.Errorf("%+v, want %+v", l, p.ProgHeader)
		}
		if at, ok := got.Loads.Address(p.Off + p.Filesz - 1); !ok || at != p.Vaddr+p.Filesz-1 {
			t.Errorf("address %#x, want the end of %+v", at, p.ProgHeader)
		}
		if bias, ok := got.Loads.Bias(0x7000_0000_0000+p.Vaddr, p.Off); l.Exec && (!ok || bias != 0x7000_0000_0000) {
			t.Errorf("bias %#x", bias)
		}
	}
}

func compareFunctions(t *testing.T, got *File, kind uint32, symbols []elf.Symbol, err error) {
	t.Helper()
	var want []Function
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			want = append(want, Function{s.Name, s.Version, s.Value, s.Size})
		}
	}
	have, err := got.Functions(kind)
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("%d functions of table %d, %v, want %d", len(have), kind, err, len(want))
	}
}

// Sections are decompressed up to a limit.
func TestContents(t *testing.T) {
	plain := link(t)
	for _, kind := range []string{"zlib", "zlib-gnu"} {
		t.Run(kind, func(t *testing.T) {
			testkit.NeedTool(t, "objcopy")
			packed := filepath.Join(t.TempDir(), "packed.so")
			if out, err := exec.Command("objcopy", "--compress-debug-sections="+kind, plain, packed).CombinedOutput(); err != nil {
				t.Fatalf("objcopy: %v\n%s", err, out)
			}
			want, got := contents(t, plain, 1<<20), contents(t, packed, 1<<20)
			if len(want) < 4 || len(want) != len(got) {
				t.Fatalf("%d sections, want %d", len(got), len(want))
			}
			for name, b := range want {
				if !bytes.Equal(got[name], b) {
					t.Errorf("%s has %d bytes, want %d", name, len(got[name]), len(b))
				}
			}
			if few := contents(t, packed, 40); len(few[".debug_str"]) > 40 {
				t.Errorf("%d bytes, at most 40 are allowed", len(few[".debug_str"]))
			}
		})
	}
}

// The size that a compressed section claims is checked before memory is allocated for it.
func TestZstd(t *testing.T) {
	want := bytes.Repeat([]byte("int main "), 1000)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = z.Close() }()
	for _, tt := range []struct {
		name  string
		size  uint64 // claimed
		limit uint64
		ok    bool
	}{
		{"valid", uint64(len(want)), 1 << 40, true}, {"over the limit", uint64(len(want)), uint64(len(want)) - 1, false},
		{"too short", uint64(len(want)) + 1, 1 << 40, false}, {"a terabyte", 1 << 40, 1 << 41, false},
	} {
		b := le.AppendUint64([]byte{chZstd, 0, 0, 0, 0, 0, 0, 0}, tt.size)
		b = z.EncodeAll(want, le.AppendUint64(b, 1))
		s := Section{flags: shfCompressed, Data: Data{R: bytes.NewReader(b), Size: uint64(len(b))}}
		if got, err := s.Contents(tt.limit); (err == nil) != tt.ok || tt.ok && !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", tt.name, len(got), err)
		}
	}
}

func contents(t *testing.T, path string, limit uint64) map[string][]byte {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	f, err := Open(r)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, s := range f.Sections {
		name := strings.Replace(s.Name, ".zdebug_", ".debug_", 1)
		if !strings.HasPrefix(name, ".debug_") {
			continue
		}
		if b, err := s.Contents(limit); err == nil {
			out[name] = b
		}
	}
	return out
}

// Names that overlap take no more memory than a table may have.
func TestOverlappingNames(t *testing.T) {
	const n, names = 5000, 512 + 3*sectionSize
	b := testkit.ELF('A')
	binary.LittleEndian.PutUint16(b[60:], 3)
	entries := names + MaxName
	header := func(i int, kind uint32, off, size int) {
		h := b[512+i*sectionSize:]
		le.PutUint32(h[4:], kind)
		le.PutUint64(h[24:], uint64(off))
		le.PutUint64(h[32:], uint64(size))
		le.PutUint32(h[40:], 2)
	}
	header(1, Dynsym, entries, n*symbolSize)
	header(2, shtStrtab, names, MaxName)
	b = append(b, bytes.Repeat([]byte{'c'}, entries+n*symbolSize-len(b))...)
	copy(b[names:], bytes.Repeat([]byte{'c'}, MaxName-1))
	b[names+MaxName-1] = 0
	for e := b[entries:]; len(e) > 0; e = e[symbolSize:] {
		clear(e[:symbolSize])
		e[4], e[6] = Func, 1
	}
	f, err := Open(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Functions(Dynsym); !errors.Is(err, ErrFormat) {
		t.Errorf("%d functions, %v, want %v", len(got), err, ErrFormat)
	}
}

// reader counts the bytes that are read.
type reader struct {
	*bytes.Reader
	read int
}

func (r *reader) ReadAt(b []byte, off int64) (int, error) {
	n, err := r.Reader.ReadAt(b, off)
	r.read += n
	return n, err
}

// A hostile file takes no more work and memory than a valid one of its size.
func FuzzOpen(f *testing.F) {
	f.Add(testkit.ELF('A'))
	f.Add(testkit.ELF('B')[:200])
	f.Add([]byte("\x7fELF\x02\x01"))
	for _, args := range [][]string{{"-s"}, {"-gz=zlib"}, {"-nostdlib", "-Wl,-z,noseparate-code"}} {
		b, err := os.ReadFile(link(f, args...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &reader{Reader: bytes.NewReader(b)}
		e, err := OpenDebug(r)
		if err != nil {
			return
		}
		if id := e.BuildID(); len(id) > 2*maxBuildID {
			t.Errorf("build id of %d digits", len(id))
		}
		for _, kind := range []uint32{Symtab, Dynsym} {
			table := e.Symbols(kind)
			functions, err := e.Functions(kind)
			if err == nil && uint64(len(functions)) > table.Len() {
				t.Errorf("%d functions of %d symbols", len(functions), table.Len())
			}
		}
		if len(e.Versions()) > maxVersions || len(e.Soname()) > MaxName {
			t.Errorf("%d versions, soname of %d bytes", len(e.Versions()), len(e.Soname()))
		}
		e.DebugLink()
		e.DebugAltLink()
		e.Loads.Bias(0x7f0000000000, 0)
		e.Loads.Code(0x1000)
		if most := 1<<20 + (maxSegments+32)*len(b); r.read > most {
			t.Errorf("%d bytes are read of a file of %d, at most %d should be", r.read, len(b), most)
		}
		for _, s := range e.Sections[:min(100, len(e.Sections))] {
			if s.Size > uint64(len(b)) {
				t.Fatalf("section of %d bytes in a file of %d", s.Size, len(b))
			}
			if b, err := s.Contents(1 << 20); err == nil && len(b) > 1<<20 {
				t.Errorf("%d bytes of a section", len(b))
			}
			s.Text(1)
		}
	})
}
