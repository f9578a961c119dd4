package python

import (
	"encoding/binary"
	"fmt"
	"path"
	"runtime"
	"strings"

	"ingero/internal/proc"
)

// threads finds how a thread's pthread_self() follows from the thread pointer that the kernel
// knows. On x86-64 they are equal. On arm64 a thread's structure ends at its thread pointer, and
// the C library gives its size.
func (t Target) threads(mapped []proc.Mapping, f *Facts) error {
	if runtime.GOARCH == "amd64" {
		return nil
	}
	b, ok := t.libc(mapped, "_thread_db_sizeof_pthread", 4)
	if !ok {
		return fmt.Errorf("%w: the C library does not publish the size of its thread structures", ErrThreads)
	}
	f.ThreadBelow = binary.LittleEndian.Uint32(b)
	return nil
}

// tidOffset returns the offset of a thread's kernel number from pthread_self(), in the C library.
func (t Target) tidOffset(mapped []proc.Mapping) (uint64, bool) {
	b, ok := t.libc(mapped, "_thread_db_pthread_tid", 12) // bits, count, offset
	if !ok || binary.LittleEndian.Uint32(b) != 32 {
		return 0, false
	}
	return uint64(binary.LittleEndian.Uint32(b[8:])), true
}

// libc reads a constant that the C library has for debuggers (glibc only).
func (t Target) libc(mapped []proc.Mapping, name string, size int) ([]byte, bool) {
	for _, m := range mapped {
		base := path.Base(m.Path)
		if !m.Exec || !strings.HasPrefix(base, "libc.so") && !strings.HasPrefix(base, "libpthread") && !strings.HasPrefix(base, "libc-2.") {
			continue
		}
		file, _, err := t.FS.OpenMapped(t.PID, m)
		if err != nil {
			continue
		}
		im, err := readImage(file)
		_ = file.Close()
		if err != nil {
			continue
		}
		at, found := im.address(name)
		load, mappedThere := im.base(mapped, m.Key)
		b := make([]byte, size)
		if found && mappedThere && (memory{t.Memory}).read(b, load+at) == nil {
			return b, true
		}
	}
	return nil, false
}
