package probes

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// Memory that a BPF iterator reads equals the process's memory, over any number of pages.
func TestPeek(t *testing.T) {
	t.Parallel()
	testkit.NeedBPF(t)
	p, err := OpenPeeker()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	page := os.Getpagesize()
	there, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(there) }()
	for i := range there {
		there[i] = byte(i * 7 >> 3)
	}
	if err := unix.Mprotect(there[3*page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	at, self := int64(reflect.ValueOf(there).Pointer()), p.Process(uint32(os.Getpid()))
	for _, span := range [][2]int{{0, 1}, {5, 4096}, {page - 3, 6}, {1, 3*page - 1}} {
		got := make([]byte, span[1])
		if n, err := self.ReadAt(got, at+int64(span[0])); n != span[1] || err != nil || !bytes.Equal(got, there[span[0]:span[0]+span[1]]) {
			t.Errorf("%v: %d bytes, %v, or others", span, n, err)
		}
	}
	if _, err := self.ReadAt(make([]byte, page), at+int64(3*page)-8); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("where it ends: %v", err)
	}
	if _, err := p.Process(1<<22).ReadAt(make([]byte, 8), at); !errors.Is(err, proc.ErrExited) {
		t.Errorf("of nobody: %v", err)
	}
}
