package guests

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// writeInitrd writes an archive of regular files, given as path in the guest to path on this
// machine, and the directories above them, in the "newc" format
// (Documentation/driver-api/early-userspace/buffer-format.rst).
func writeInitrd(w io.Writer, files map[string]string) error {
	a := &archive{w: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			return err
		}
		a.file(strings.TrimPrefix(name, "/"), text)
	}
	// The kernel opens /dev/console for /init before anything is mounted.
	a.dir("dev")
	a.entry("dev/console", 0o020600, nil, 5, 1)
	for _, dir := range []string{"proc", "sys", "tmp"} {
		a.dir(dir)
	}
	a.entry("TRAILER!!!", 0, nil, 0, 0)
	return a.end()
}

type archive struct {
	w    *bufio.Writer
	made map[string]bool
	ino  int
	size int
}

func (a *archive) dir(name string) {
	if name == "." || a.made[name] {
		return
	}
	a.dir(path.Dir(name))
	a.made[name] = true
	a.entry(name, 0o040755, nil, 0, 0)
}

func (a *archive) file(name string, text []byte) {
	a.dir(path.Dir(name))
	a.entry(name, 0o100755, text, 0, 0)
}

// entry writes one header, name and content, each padded to four bytes. The writer keeps errors
// until end.
func (a *archive) entry(name string, mode int, text []byte, major, minor int) {
	a.ino++
	fields := []int{a.ino, mode, 0, 0, 1, 0, len(text), 0, 0, major, minor, len(name) + 1, 0}
	a.write("070701")
	for _, f := range fields {
		a.write(fmt.Sprintf("%08x", f))
	}
	a.write(name + "\x00")
	a.pad()
	n, _ := a.w.Write(text)
	a.size += n
	a.pad()
}

func (a *archive) write(s string) {
	n, _ := a.w.WriteString(s)
	a.size += n
}

func (a *archive) pad() { a.write("\x00\x00\x00"[:-a.size&3]) }

func (a *archive) end() error { return a.w.Flush() }
