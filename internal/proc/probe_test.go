package proc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// The kernel accepts the path of OpenMapped for a probe. The test's program has a library's name
// and is deleted while it runs. The calls of its function obeyed are probed and counted.
func TestProbeByPath(t *testing.T) {
	testkit.NeedBPF(t) // for tracefs
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "libcudart.so.12")
	testkit.WriteProgram(t, path, content)
	h := startHelper(t, func(c *exec.Cmd) { c.Path = path })
	remove(t, path)
	lib := only(t, h.pid)
	if !lib.Deleted {
		t.Errorf("mapping = %+v, want a deleted file", lib)
	}
	f, uprobe, err := FS{}.OpenMapped(h.pid, lib.Mapping)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	hits := countHits(t, uprobe, offsetOf(t, obeyed), h.pid)
	const n = 7
	for range n {
		h.do("hostpids")
	}
	if got := hits(); got != n {
		t.Errorf("%d hits, want %d", got, n)
	}
}

// offsetOf finds the file offset of a function of this program.
func offsetOf(t *testing.T, fn any) uint64 {
	t.Helper()
	at := uint64(reflect.ValueOf(fn).Pointer())
	maps, err := FS{}.Maps(uint32(os.Getpid()), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		if m.Start <= at && at < m.End {
			return at - m.Start + m.Offset
		}
	}
	t.Fatalf("no mapping has %#x", at)
	return 0
}

// countHits attaches a probe to a file through tracefs, and counts one process's hits.
func countHits(t *testing.T, path string, offset uint64, pid uint32) func() uint64 {
	t.Helper()
	const dir = "/sys/kernel/tracing"
	group := fmt.Sprintf("ingero_test_%d", os.Getpid())
	control := func(line string) error {
		f, err := os.OpenFile(dir+"/uprobe_events", os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(line)
		return err
	}
	if err := control(fmt.Sprintf("p:%s/hit %s:%#x", group, path, offset)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := control("-:" + group + "/hit"); err != nil {
			t.Error(err)
		}
	})
	text, err := os.ReadFile(filepath.Join(dir, "events", group, "hit", "id"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	fds := openHits(t, id, pid)
	return func() (sum uint64) {
		for _, fd := range fds {
			var b [8]byte
			if _, err := unix.Read(fd, b[:]); err != nil {
				t.Fatal(err)
			}
			var n uint64
			if err := binary.Read(bytes.NewReader(b[:]), binary.NativeEndian, &n); err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
}

// openHits counts hits of an event in all threads of a process: any thread of a Go program may run
// the function.
func openHits(t *testing.T, id uint64, pid uint32) (fds []int) {
	t.Helper()
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Size: unix.PERF_ATTR_SIZE_VER5, Bits: unix.PerfBitInherit}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	t.Cleanup(func() { // runs before the event's removal, which it would keep busy
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	})
	return fds
}
