package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/elffile"
	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// wantFile fails unless the file is the one that elfFile wrote with the letter, both as opened and
// by the path for probes.
func wantFile(t *testing.T, f *os.File, path string, letter byte) {
	t.Helper()
	want := strings.Repeat(fmt.Sprintf("%02x", letter), 20)
	if id, err := elffile.BuildID(f); err != nil || id != want {
		t.Errorf("build id of the file = %q, %v, want %q", id, err, want)
	}
	again, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if id, err := elffile.BuildID(again); err != nil || id != want {
		t.Errorf("build id of %s = %q, %v, want %q", path, id, err, want)
	}
}

func TestOpenMapped(t *testing.T) {
	testkit.NeedRoot(t)
	for _, tt := range []struct {
		name string
		verb string
		file string
		then func(t *testing.T, path string)
		lib  events.Library
	}{
		{name: "in place", verb: "map", file: "libcudart.so.12", lib: events.LibCudart},
		{name: "odd name", verb: "map", file: "a (deleted) b\nc/libnccl.so.2", lib: events.LibNCCL},
		{name: "name that looks deleted", verb: "map", file: "libcuda.so.1 (deleted)", lib: events.LibCuda},
		{name: "deleted", verb: "map", file: "libcuda.so.1", lib: events.LibCuda,
			then: func(t *testing.T, path string) { remove(t, path) }},
		{name: "replaced", verb: "map", file: "libcuda.so.1", lib: events.LibCuda,
			then: func(t *testing.T, path string) { remove(t, path); elfFile(t, path, 'Z') }},
		{name: "memfd", verb: "memfd", file: "libcudart.so.13", lib: events.LibCudart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := startHelper(t, nil)
			path := elfFile(t, filepath.Join(t.TempDir(), tt.file), 'K')
			if strings.Contains(path, "\n") { // commands are lines
				link := filepath.Join(t.TempDir(), "link")
				if err := os.Symlink(path, link); err != nil {
					t.Fatal(err)
				}
				h.do(tt.verb + " " + link)
			} else {
				h.do(tt.verb + " " + path)
			}
			if tt.then != nil {
				tt.then(t, path)
			}
			lib := only(t, h.pid)
			if lib.Lib != tt.lib {
				t.Errorf("library = %v, want %v", lib.Lib, tt.lib)
			}
			f, uprobe, err := FS{}.OpenMapped(h.pid, lib.Mapping)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if want := fmt.Sprintf("/proc/%d/map_files/", h.pid); !strings.HasPrefix(f.Name(), want) {
				t.Errorf("found in %s, want %s", f.Name(), want)
			}
			wantFile(t, f, uprobe, 'K')
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// The range of a mapping changes when its neighbour is mapped or part of it is protected. Then any
// other mapping of the file serves.
func TestOpenMappedAfterSplit(t *testing.T) {
	testkit.NeedRoot(t)
	h := startHelper(t, nil)
	h.do("map " + elfFile(t, filepath.Join(t.TempDir(), "libcuda.so.1"), 'S'))
	m := only(t, h.pid).Mapping
	m.End += 0x1000
	f, path, err := FS{}.OpenMapped(h.pid, m)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wantFile(t, f, path, 'S')
}

// Without the capability for map_files the path is used, but only if it leads to the mapped file.
func TestOpenByPath(t *testing.T) {
	testkit.NeedRoot(t)
	file := func(t *testing.T, dir string) string { return filepath.Join(dir, "libcudart.so.12") }
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string)
		chroot bool
		err    error
	}{
		{name: "in place"},
		{name: "chroot", chroot: true},
		{name: "replaced", err: errOtherFile,
			change: func(t *testing.T, dir string) { remove(t, file(t, dir)); elfFile(t, file(t, dir), 'Z') }},
		{name: "a pipe", err: errNotRegular, change: func(t *testing.T, dir string) {
			remove(t, file(t, dir))
			if err := unix.Mkfifo(file(t, dir), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a folder", err: errNotRegular, change: func(t *testing.T, dir string) {
			remove(t, file(t, dir))
			if err := os.Mkdir(file(t, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a link to a process's own files", err: unix.ELOOP, change: func(t *testing.T, dir string) {
			remove(t, file(t, dir))
			if err := os.Symlink("/proc/self/exe", file(t, dir)); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "deleted", err: unix.ENOENT, change: func(t *testing.T, dir string) { remove(t, file(t, dir)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			h := startHelper(t, nil)
			h.do("map " + elfFile(t, file(t, dir), 'P'))
			m := only(t, h.pid).Mapping // from before the change, as in a race
			if tt.change != nil {
				tt.change(t, dir)
			}
			if tt.chroot {
				h.do("chroot " + dir)
			}
			d, err := FS{}.openPID(h.pid)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			o, err := d.openPath(m)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error = %v, want %v", err, tt.err)
			}
			if err == nil {
				defer o.file.Close()
				wantFile(t, o.file, o.file.Name(), 'P')
			}
		})
	}
}

func TestOpenMappedRefusesOtherFile(t *testing.T) {
	testkit.NeedRoot(t)
	h := startHelper(t, nil)
	h.do("map " + elfFile(t, filepath.Join(t.TempDir(), "libcuda.so.1"), 'A'))
	m := only(t, h.pid).Mapping
	m.Key.Inode++
	if _, _, err := (FS{}).OpenMapped(h.pid, m); !errors.Is(err, errOtherFile) {
		t.Errorf("error = %v, want that it is another file", err)
	}
}

func TestOpenMappedRefusesNonsense(t *testing.T) {
	testkit.NeedRoot(t)
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := startHelper(t, nil)
	h.do("map " + path)
	if _, _, err := (FS{}).OpenMapped(h.pid, only(t, h.pid).Mapping); !errors.Is(err, elffile.ErrFormat) {
		t.Errorf("error = %v, want that it is no ELF file", err)
	}
}

// Two overlay mounts of one lower file have the same content, and one or two keys, depending on the
// kernel version. Each file can be opened.
func TestOverlay(t *testing.T) {
	testkit.NeedRoot(t)
	dir := t.TempDir()
	elfFile(t, filepath.Join(dir, "lower", "libcudart.so.12"), 'O')
	for _, name := range []string{"a", "b"} {
		merged := filepath.Join(dir, name)
		options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/up-%s,workdir=%s/work-%s", dir, dir, name, dir, name)
		for _, d := range []string{merged, filepath.Join(dir, "up-"+name), filepath.Join(dir, "work-"+name)} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		err := unix.Mount("overlay", merged, "overlay", 0, options)
		testkit.NeedKernel(t, "overlayfs", !errors.Is(err, unix.ENODEV))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(merged, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		h := startHelper(t, nil)
		h.do("map " + filepath.Join(merged, "libcudart.so.12"))
		lib := only(t, h.pid)
		f, path, err := FS{}.OpenMapped(h.pid, lib.Mapping)
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, f, path, 'O')
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		d, err := FS{}.openPID(h.pid)
		if err != nil {
			t.Fatal(err)
		}
		o, err := d.openPath(lib.Mapping)
		d.close()
		if err != nil {
			t.Fatalf("by path: %v", err)
		}
		wantFile(t, o.file, o.file.Name(), 'O')
		if err := o.file.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that is mapped without execute permission, as package managers do, does not make a CUDA
// process. A file that is mapped several times is listed once.
func TestLibraries(t *testing.T) {
	h := startHelper(t, nil)
	path := elfFile(t, filepath.Join(t.TempDir(), "libcudart.so.12"), 'A')
	h.do("read " + path)
	if libs, err := (FS{}).Libraries(h.pid, Names{}); err != nil || len(libs) != 0 {
		t.Errorf("Libraries = %+v, %v, want none", libs, err)
	}
	h.do("map " + path)
	h.do("map " + path)
	only(t, h.pid)
	all, err := FS{}.Maps(h.pid, false)
	if err != nil {
		t.Fatal(err)
	}
	exec, err := FS{}.Maps(h.pid, true)
	if err != nil {
		t.Fatal(err)
	}
	if a, e := count(all, path), count(exec, path); a < 2 || e < 1 || e >= a {
		t.Errorf("%d mappings, %d executable", a, e)
	}
}

func count(ms []Mapping, path string) (n int) {
	for _, m := range ms {
		if m.Path == path {
			n++
		}
	}
	return n
}
