package image

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// build compiles a file of testdata to the file name in dir.
func build(t testing.TB, dir, name string, compile ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	run(t, append(compile, "-o", path)...)
	return path
}

func run(t testing.TB, argv ...string) {
	t.Helper()
	testkit.NeedTool(t, argv[0])
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

func open(t testing.TB, path string, debugs ...string) *Image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(f, func(d Debug, offer func(File) bool) {
		for _, name := range debugs {
			if f, err := os.Open(name); err == nil && offer(f) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// functions are the functions of an ELF file by address, with all their names.
type functions struct {
	names map[uint64][]string
	sizes map[uint64]uint64
}

func functionsOf(t testing.TB, path string) (x functions) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	symbols, err := f.Symbols()
	if err != nil {
		symbols, err = f.DynamicSymbols()
	}
	if err != nil {
		t.Fatal(err)
	}
	x = functions{map[uint64][]string{}, map[uint64]uint64{}}
	for _, s := range symbols {
		if kind := elf.ST_TYPE(s.Info); (kind == elf.STT_FUNC || kind == elf.STT_GNU_IFUNC) && s.Size > 0 && s.Section != elf.SHN_UNDEF {
			name, _, _ := strings.Cut(s.Name, "@")
			x.names[s.Value] = append(x.names[s.Value], name)
			x.sizes[s.Value] = max(x.sizes[s.Value], s.Size)
		}
	}
	return x
}

// addresses returns about n addresses in functions, or a few of each: its start, its end, and some
// between.
func (x functions) addresses(n int) (out []uint64) {
	all := make([]uint64, 0, len(x.sizes))
	for at := range x.sizes {
		all = append(all, at)
	}
	slices.Sort(all)
	for i := 0; i < len(all); i += max(1, 17*len(all)/n) {
		at, size := all[i], x.sizes[all[i]]
		for k := range uint64(16) {
			out = append(out, at+size*k/16)
		}
		out = append(out, at+size-1)
	}
	return slices.Compact(out)
}

// reported returns another program's answers: for each address function and line, innermost first.
func reported(t testing.TB, path string, addrs []uint64) [][]Frame {
	t.Helper()
	testkit.NeedTool(t, "llvm-symbolizer-14")
	cmd := exec.Command("llvm-symbolizer-14", "--obj="+path, "--no-demangle", "--inlines")
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd.Stdin = &in
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]Frame
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var frames []Frame
		lines := strings.Split(block, "\n")
		for i := 0; i+1 < len(lines); i += 2 {
			var f Frame
			if lines[i] != "??" {
				f.Func = lines[i]
			}
			place := lines[i+1][:strings.LastIndexByte(lines[i+1], ':')]
			at := strings.LastIndexByte(place, ':')
			if _, err := fmt.Sscan(place[at+1:], &f.Line); err != nil {
				t.Fatalf("%q: %v", lines[i+1], err)
			}
			if f.Line > 0 {
				f.File = filepath.Clean(place[:at])
			}
			frames = append(frames, f)
		}
		out = append(out, frames)
	}
	if len(out) != len(addrs) {
		t.Fatalf("%d answers for %d addresses", len(out), len(addrs))
	}
	return out
}

// same compares places with another program's answers. If the linker merged functions, any of their
// names is right.
func same(t testing.TB, symbols functions, got []Place, want [][]Frame) {
	t.Helper()
	wrong, inlined, lines := 0, 0, 0
	for i, g := range got {
		aliases := symbols.names[g.Start]
		ok := len(g.Frames) == len(want[i])
		for j := 0; ok && j < len(g.Frames); j++ {
			a, b := g.Frames[j], want[i][j]
			ok = a.File == b.File && a.Line == b.Line && (a.Func == b.Func || slices.Contains(aliases, a.Func) && j == len(g.Frames)-1)
			inlined += min(j, 1)
			lines += int(min(a.Line, 1))
		}
		if !ok {
			if wrong++; wrong < 5 {
				t.Errorf("%#x:\n got %+v\nwant %+v", g.Addr, g.Frames, want[i])
			}
		}
	}
	t.Logf("%d addresses, %d lines, %d functions put into others, %d wrong", len(got), lines, inlined, wrong)
}

// variants are the outputs of compilers and tools for one source.
var variants = []struct {
	name  string
	flags []string // flags of the compiler
	after []string // commands to run on the program
	lines bool     // most addresses have a line
}{
	{"DWARF 5", []string{"-O2", "-gdwarf-5"}, nil, true},
	{"DWARF 4", []string{"-O2", "-gdwarf-4"}, nil, true},
	{"DWARF 3", []string{"-O2", "-gdwarf-3", "-gstrict-dwarf"}, nil, true},
	{"DWARF of 64 bits", []string{"-O2", "-gdwarf-5", "-gdwarf64"}, nil, true},
	{"not optimised, at a fixed address", []string{"-O0", "-g", "-no-pie"}, nil, true},
	{"optimised at link time", []string{"-O2", "-g", "-flto"}, nil, true},
	{"functions left out by the linker", []string{"-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections"}, nil, true},
	{"compressed", []string{"-O2", "-g", "-gz=zlib"}, nil, true},
	{"compressed as of old", []string{"-O2", "-g"}, []string{"objcopy", "--compress-debug-sections=zlib-gnu"}, true},
	{"lines only", []string{"-O2", "-g1"}, nil, true},
	{"no debugging information", []string{"-O2"}, nil, false},
}

func TestFind(t *testing.T) {
	t.Run("clang, C++", func(t *testing.T) { findIn(t, testkit.CXX, "testdata/program.cc") })
	t.Run("gcc, C", func(t *testing.T) { findIn(t, "gcc", "testdata/program.c") })
}

// findIn compares the places in each variant of a program with another program's answers.
func findIn(t *testing.T, compiler, source string) {
	testkit.NeedTool(t, compiler, "objcopy")
	for _, tt := range variants {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := build(t, t.TempDir(), "program", append([]string{compiler, source}, tt.flags...)...)
			if tt.after != nil {
				run(t, append(slices.Clone(tt.after), path)...)
			}
			m, symbols := open(t, path), functionsOf(t, path)
			addrs := symbols.addresses(2000)
			got := m.Find(addrs)
			same(t, symbols, got, reported(t, path, addrs))
			if n := countLines(got); (n > len(got)/2) != tt.lines {
				t.Errorf("%d of %d have a line", n, len(got))
			}
			if m.Bytes() > 4<<20 {
				t.Errorf("%d bytes are held", m.Bytes())
			}
		})
	}
}

func countLines(places []Place) (n int) {
	for _, p := range places {
		for _, f := range p.Frames {
			if f.Line > 0 {
				n++
				break
			}
		}
	}
	return n
}

// The output of Go's own linker is supported: DWARF 5 with address tables, compressed.
func TestFindInGoProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	run(t, "go", "build", "-o", path, "ingero/tools/lint")
	symbols := functionsOf(t, path)
	addrs := symbols.addresses(3000)
	same(t, symbols, open(t, path).Find(addrs), reported(t, path, addrs))
}

// All exported functions of this system's libraries are found.
func TestFindInSystemLibraries(t *testing.T) {
	found := 0
	for _, name := range []string{"libc.so.6", "libstdc++.so.6", "libcrypto.so.3"} {
		for _, dir := range []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64"} {
			path := filepath.Join(dir, name)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			found++
			symbols := functionsOf(t, path)
			addrs := symbols.addresses(4000)
			for i, p := range open(t, path).Find(addrs) {
				if len(p.Frames) != 1 || !slices.Contains(symbols.names[p.Start], p.Frames[0].Func) || addrs[i]-p.Start >= symbols.sizes[p.Start] {
					t.Errorf("%s: %#x is %+v", path, addrs[i], p)
				}
			}
			break
		}
	}
	if found == 0 {
		t.Error("no library was found")
	}
}

// separate splits a program as distributions do: one without debug information, which is in another
// file.
func separate(t testing.TB, dir, path string) (stripped, debug string) {
	t.Helper()
	stripped, debug = filepath.Join(dir, "stripped"), filepath.Join(dir, "program.debug")
	run(t, "objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", path, debug)
	run(t, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, path, stripped)
	return stripped, debug
}

func TestSeparateDebugFile(t *testing.T) {
	testkit.NeedTool(t, testkit.CXX, "objcopy")
	dir := t.TempDir()
	path := build(t, dir, "program", testkit.CXX, "-O2", "-g", "testdata/program.cc")
	other := build(t, dir, "other", testkit.CXX, "-O1", "-g", "testdata/program.cc")
	stripped, debug := separate(t, dir, path)
	symbols := functionsOf(t, path)
	addrs := symbols.addresses(1000)
	want := reported(t, path, addrs)
	same(t, symbols, open(t, stripped, other, stripped, debug).Find(addrs), want)
	if got := countLines(open(t, stripped, other, stripped, "testdata/program.cc").Find(addrs)); got > 0 {
		t.Errorf("%d lines without the right file", got)
	}
}

// The symbols that Fedora leaves in stripped programs are found.
func TestMiniDebugInfo(t *testing.T) {
	testkit.NeedTool(t, testkit.CXX, "objcopy")
	dir := t.TempDir()
	path := build(t, dir, "program", testkit.CXX, "-O2", "testdata/program.cc")
	mini, with := filepath.Join(dir, "mini"), filepath.Join(dir, "with")
	run(t, "objcopy", "--only-keep-debug", path, mini)
	symtab, err := os.ReadFile(mini)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mini, packXZ(t, symtab, ""), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "objcopy", "--strip-all", "--add-section", ".gnu_debugdata="+mini, path, with)
	symbols := functionsOf(t, path)
	addrs := symbols.addresses(1000)
	for i, p := range open(t, with).Find(addrs) {
		if len(p.Frames) != 1 || !slices.Contains(symbols.names[p.Start], p.Frames[0].Func) {
			t.Errorf("%#x is %+v", addrs[i], p)
		}
	}
	bare := filepath.Join(dir, "bare")
	run(t, "objcopy", "--strip-all", path, bare)
	names := 0
	for _, p := range open(t, bare).Find(addrs) {
		names += len(p.Frames)
	}
	if names > len(addrs)/2 {
		t.Errorf("%d of %d have a name without it", names, len(addrs))
	}
}

// Addresses between functions have no name: a symbol covers only its size.
func TestNoName(t *testing.T) {
	testkit.NeedTool(t, testkit.CXX, "objcopy")
	dir := t.TempDir()
	path := build(t, dir, "program", testkit.CXX, "-O2", "-rdynamic", "testdata/program.cc")
	stripped := filepath.Join(dir, "stripped")
	run(t, "objcopy", "--strip-all", path, stripped)
	all, exported := functionsOf(t, path), functionsOf(t, stripped)
	m := open(t, stripped)
	for at, names := range all.names {
		if len(exported.names[at]) > 0 {
			continue
		}
		p := m.Find([]uint64{at})[0]
		if p.Start != 0 && exported.sizes[p.Start] <= at-p.Start {
			t.Errorf("%v at %#x is called %+v", names, at, p)
		}
	}
	for _, at := range []uint64{0, 1, 1 << 33, 1<<64 - 1} {
		if p := m.Find([]uint64{at})[0]; len(p.Frames) > 0 {
			t.Errorf("%#x is %+v", at, p)
		}
	}
}

// A symbol without a size ends with its section at the latest.
func TestNoNameFromAnotherSection(t *testing.T) {
	testkit.NeedTool(t, "gcc", "objcopy")
	dir := t.TempDir()
	path := build(t, dir, "library", "gcc", "-shared", "-nostdlib", "testdata/label.c")
	stripped := filepath.Join(dir, "stripped")
	run(t, "objcopy", "--strip-all", path, stripped)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range symbols {
		if s.Name == "label" || s.Name == "hidden" {
			for _, frame := range open(t, stripped).Find([]uint64{s.Value + 4})[0].Frames {
				got[s.Name] = frame.Func
			}
		}
	}
	if want := map[string]string{"label": "label"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
