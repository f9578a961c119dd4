package symbols

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"ingero/internal/elffile"
)

// Find finds the same functions as debug/elf.
func TestFind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program") // a test binary has no symbols if go test runs several packages
	if out, err := exec.Command("go", "build", "-o", path, "ingero/tools/lint").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	f, err := elf.NewFile(file)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint64][]string{}
	var offsets, addresses []uint64
	for _, s := range symbols {
		for _, p := range f.Progs {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value-p.Vaddr < p.Filesz {
				names[s.Value] = append(names[s.Value], s.Name)
				if len(offsets) < 2000 {
					offsets, addresses = append(offsets, s.Value-p.Vaddr+p.Off), append(addresses, s.Value)
				}
			}
		}
	}
	got, err := Find(file, append(offsets, 1<<40, 3))
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range addresses {
		if !slices.Contains(names[a], got[i]) && got[i] != "" {
			t.Errorf("%#x is %q, want one of %q", a, got[i], names[a])
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(got[:len(offsets)]), func(s string) bool { return s == "" })); n < 1900 {
		t.Errorf("%d of %d were found", n, len(offsets))
	}
	if rest := got[len(offsets):]; rest[0] != "" || rest[1] != "" {
		t.Errorf("%q at offsets of nothing", rest)
	}
}

func TestFindInNoELF(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("#!/bin/sh\n"), []byte("\x7fELF"), append([]byte("\x7fELF\x01\x01"), make([]byte, 100)...)} {
		if _, err := Find(bytes.NewReader(b), []uint64{1}); !errors.Is(err, elffile.ErrFormat) {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// In any ELF file, an address has one name, whatever else is asked with it, and only a function of the
// file has one. Small libraries of two compilers are in testdata/fuzz.
func FuzzFind(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte, off uint64) {
		r := bytes.NewReader(b)
		file, err := elffile.Open(r)
		if err != nil {
			return
		}
		offsets, functions := []uint64{off, 0, ^uint64(0)}, map[uint64]bool{}
		for _, kind := range []uint32{elffile.Symtab, elffile.Dynsym} {
			err = errors.Join(err, file.Symbols(kind).Each(func(_ uint64, s *elffile.Symbol) error {
				if s.Kind() != elffile.Func {
					return nil
				}
				functions[s.Value()] = true
				if at, ok := file.Loads.At(s.Value()); ok && len(offsets) < 50 {
					offsets = append(offsets, at.Off, at.Off+1)
				}
				return nil
			}))
		}
		names, findErr := Find(r, append(offsets, offsets...))
		if (findErr == nil) != (err == nil) {
			t.Fatalf("%v, though reading the symbols: %v", findErr, err)
		}
		if err != nil {
			return
		}
		if len(names) != 2*len(offsets) || !slices.Equal(names[:len(offsets)], names[len(offsets):]) {
			t.Fatalf("%d offsets, twice, have the names %q", len(offsets), names)
		}
		for i, off := range offsets {
			addr, loaded := file.Loads.Address(off)
			if name := names[i]; name != "" && !(loaded && functions[addr] && len(name) <= MaxName && Printable([]byte(name)) == name) {
				t.Errorf("%#x is %q", off, name)
			}
			if alone, err := Find(r, []uint64{off}); err != nil || alone[0] != names[i] {
				t.Errorf("%#x is %q, and %q alone (%v)", off, names[i], alone, err)
			}
		}
	})
}
