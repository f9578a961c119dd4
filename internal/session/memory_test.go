package session

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/decode"
	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// A stripped copy of a file, with the same build id, does not hide the names of another copy, but
// shares those that are known.
func TestSymbolsOfCopies(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "gcc")
	testkit.NeedTool(t, "strip")
	dir := t.TempDir()
	whole, stripped := filepath.Join(dir, "whole.so"), filepath.Join(dir, "stripped.so")
	for _, command := range [][]string{
		{"gcc", "-shared", "-fPIC", "-Wl,--build-id", "-o", whole, filepath.Join("testdata", "kernels.c")},
		{"strip", "-o", stripped, whole},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	offset, name := localFunction(t, whole)
	m, own := newMemory(decode.Clock{}), uint32(os.Getpid())
	for _, c := range []struct{ path, want string }{{stripped, ""}, {whole, name}, {stripped, name}} {
		got, err := m.Symbols(own, time.Now().UnixNano(), []uint64{mapFile(t, c.path) + offset})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, want %q", filepath.Base(c.path), got, c.want)
		}
	}
	if len(m.known) != 2 {
		t.Errorf("%d offsets are known, want two: the name, and that one copy lacks it: %v", len(m.known), m.known)
	}
}

// A copy of a file that another user forged, with the same build id and size, gives the true file no names.
func TestSymbolsOfForgedCopy(t *testing.T) {
	testkit.NeedRoot(t)
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	genuine, forged := filepath.Join(dir, "true.so"), filepath.Join(dir, "forged.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wl,--build-id", "-o", genuine, filepath.Join("testdata", "kernels.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	offset, name := localFunction(t, genuine)
	b, err := os.ReadFile(genuine)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte("\x00"+name+"\x00"), []byte("\x00other\x00"))
	if err := errors.Join(os.WriteFile(forged, b, 0o600), os.Chown(forged, 4242, 4242)); err != nil {
		t.Fatal(err)
	}
	m, own := newMemory(decode.Clock{}), uint32(os.Getpid())
	for _, c := range []struct{ path, want string }{{forged, "other"}, {genuine, name}} {
		got, err := m.Symbols(own, time.Now().UnixNano(), []uint64{mapFile(t, c.path) + offset})
		if err != nil || !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %q, %v, want %q", filepath.Base(c.path), got, err, c.want)
		}
	}
}

// localFunction returns the offset and the name of a function that the dynamic symbols lack.
func localFunction(t *testing.T, path string) (offset uint64, name string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	all, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == "check" })
	if i < 0 {
		t.Fatalf("%s has no symbol check", path)
	}
	for _, p := range f.Progs {
		if s := all[i]; p.Type == elf.PT_LOAD && s.Value >= p.Vaddr && s.Value-p.Vaddr < p.Filesz {
			return s.Value - p.Vaddr + p.Off, s.Name
		}
	}
	t.Fatal("no segment has check")
	return 0, ""
}

// mapFile maps a file as code, and returns where.
func mapFile(t *testing.T, path string) uint64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	maps, err := (proc.FS{}).Maps(uint32(os.Getpid()), true)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(maps, func(m proc.Mapping) bool { return m.Path == path })
	if i < 0 {
		t.Fatalf("%s is not mapped", path)
	}
	return maps[i].Start
}
