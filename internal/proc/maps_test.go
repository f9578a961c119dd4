package proc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// A process whose address space stays locked costs one thread, not the agent. A pipe that nobody
// writes to stands in for its maps.
func TestMapsOfStuckProcess(t *testing.T) {
	const pid = 1 << 30 // no other test has it
	root := t.TempDir()
	dir := filepath.Join(root, "1073741824")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "maps")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0) // so that opening it to read does not wait
	if err != nil {
		t.Fatal(err)
	}
	for _, patience := range []time.Duration{1, time.Hour} { // the second read is not tried
		if _, err := (FS{Root: root, Patience: patience}).Maps(pid, false); !errors.Is(err, ErrStuck) {
			t.Errorf("patience %v: %v, want ErrStuck", patience, err)
		}
	}
	fixture(t, root, pid, nil)
	fixture(t, root, pid+1, map[string]string{"maps": "1000-2000 r-xp 00000000 08:01 77 /opt/libcuda.so.1\n"})
	found, unread, err := FS{Root: root, Patience: time.Hour}.Scan(t.Context(), Selector{All: true}, Names{})
	if err != nil || len(found) != 1 || found[0].PID != pid+1 || len(unread) != 1 || unread[0].PID != pid || !errors.Is(unread[0].Err, ErrStuck) {
		t.Errorf("Scan = %+v, %+v, %v, want %d stuck and %d found", found, unread, err, pid, pid+1)
	}
	if _, err := pipe.WriteString("1000-2000 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n"); err != nil {
		t.Fatal(err)
	}
	if err := pipe.Close(); err != nil { // the read ends, and nothing is left of it
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end of the read", func() bool { _, is := stuck.Load(uint32(pid)); return !is })
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("1000-2000 r-xp 0 08:01 5 /usr/lib/libcuda.so.1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := (FS{Root: root}).Maps(pid, false); len(got) != 1 || err != nil {
		t.Errorf("later: %v, %v, want one mapping", got, err)
	}
}
