package proc

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

func TestMemory(t *testing.T) {
	m, err := FS{}.Memory(uint32(os.Getpid()), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	// Two pages, the second of which is unreadable.
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	at := uint64(reflect.ValueOf(b).Pointer())
	long := strings.Repeat("k", 3000)
	copy(b, long)
	copy(b[page-4:], "abc")
	copy(b[page:], "x")
	hole, err := unix.Mmap(-1, 0, page, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(hole) }()
	for _, tt := range []struct {
		name  string
		at    uint64
		limit int
		want  string
		err   error
	}{
		{"long", at, 1 << 14, long, nil},
		{"too long", at, 2999, "", io.EOF},
		{"at the end of a page", at + uint64(page) - 4, 1 << 14, "abc", nil},
		{"empty", at + 3500, 1 << 14, "", nil},
		{"nothing", 16, 1 << 14, "", io.EOF},
		{"no address", 1 << 63, 1 << 14, "", io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := m.Text(tt.at, tt.limit)
			if string(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%.40q, %v, want %.40q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// The memory of an ended process is gone, also if its number was reused.
func TestMemoryOfTheDead(t *testing.T) {
	c := testkit.Start(t, exec.Command("sleep", "600"))
	pid := uint32(c.PID())
	if _, err := (FS{}).Memory(pid, time.Now().Add(-time.Hour)); !errors.Is(err, ErrExited) {
		t.Errorf("an hour before its start: %v", err)
	}
	m, err := FS{}.Memory(pid, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	c.Signal(syscall.SIGKILL)
	_ = c.Wait()                                     // reports that it was killed
	testkit.Eventually(t, "no memory", func() bool { // another process that reads /proc may hold it for a moment
		_, err := m.Text(4096, 100)
		return errors.Is(err, ErrExited)
	})
	if _, err := (FS{}).Memory(pid, time.Now()); !errors.Is(err, ErrExited) {
		t.Errorf("when it has ended: %v", err)
	}
}
