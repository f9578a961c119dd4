package testkit

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// LeakCheck fails the test if it leaves a goroutine, a file descriptor, or a BPF link, map or
// program after its other clean-ups. Call it first, and not in a test that runs in parallel with
// others.
func LeakCheck(t testing.TB) {
	t.Helper()
	leakCheck(t, patience)
}

// leakCheck allows up to limit for closed resources to go away.
func leakCheck(t testing.TB, limit time.Duration) {
	t.Helper()
	if r, w, err := os.Pipe(); err == nil { // starts the runtime's poller, which stays
		_ = r.Close()
		_ = w.Close()
	}
	launcher() // these stay, too
	keeper()
	running := goleak.IgnoreCurrent()
	before, err := openFiles()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		if !poll(limit, func() bool { err = goleak.Find(running); return err == nil }) {
			t.Error(err)
		}
		var left []string
		clean := poll(limit, func() bool {
			now, err := openFiles()
			if err != nil {
				t.Error(err)
				return true
			}
			left = added(before, now)
			return len(left) == 0
		})
		if !clean {
			t.Errorf("left open:\n%s", strings.Join(left, "\n"))
		}
	})
}

// added lists what is in now but not in before.
func added(before, now map[int]string) []string {
	var out []string
	for _, fd := range slices.Sorted(maps.Keys(now)) {
		if what := now[fd]; before[fd] != what {
			out = append(out, fmt.Sprintf("fd %d: %s", fd, what))
		}
	}
	return out
}

// openFiles describes this process's file descriptors: the open file and, for a BPF object, its
// kernel id.
func openFiles() (map[int]string, error) {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	files := make(map[int]string, len(dir))
	for _, e := range dir {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		what, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(what, "/proc/") && strings.HasSuffix(what, "/fd") {
			continue // closed meanwhile, or the directory being read
		}
		files[fd] = what + bpfID(fd)
	}
	return files, nil
}

// bpfID returns a text such as " map_id 7" for the descriptor of a BPF object, and "" for any
// other.
func bpfID(fd int) string {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return ""
	}
	var ids string
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "link_id", "map_id", "prog_id":
			ids += " " + key + " " + strings.TrimSpace(value)
		}
	}
	return ids
}
