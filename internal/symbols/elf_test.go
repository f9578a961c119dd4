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
