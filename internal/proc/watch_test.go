package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// watch begins to watch, with regular calls of Look.
func watch(t *testing.T) *MapWatcher {
	t.Helper()
	w := watchAlone(t)
	looking(t, w)
	return w
}

func watchAlone(t *testing.T) *MapWatcher {
	t.Helper()
	testkit.NeedRoot(t)
	w, err := WatchMaps(Names{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	// A test whose event never comes must end.
	if err := w.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return w
}

// looking calls Look regularly until the test ends.
func looking(t *testing.T, w *MapWatcher) {
	ticker, done := time.NewTicker(time.Millisecond), make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-ticker.C:
				w.Look()
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-over
		ticker.Stop()
	})
}

// next returns the next event of a process and a library; 0: any. Other tests may run.
func next(t *testing.T, w *MapWatcher, pid uint32, lib events.Library) MapEvent {
	t.Helper()
	for {
		list, err := w.Read()
		if err != nil && !errors.Is(err, ErrLostMaps) {
			t.Fatal(err)
		}
		for _, ev := range list {
			if ev.PID == pid && (lib == 0 || ev.Library.Lib == lib) {
				return ev
			}
		}
	}
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

func TestWatchMaps(t *testing.T) {
	testkit.LeakCheck(t)
	w := watch(t)
	h := startHelper(t, nil)
	for _, file := range []string{"libcudart.so.12", "libcuda.so.1", "a (deleted)/libnccl.so.2"} {
		path := elfFile(t, filepath.Join(t.TempDir(), file), 'A')
		other := elfFile(t, filepath.Join(t.TempDir(), "libother.so"), 'B')
		before := monotonic(t)
		h.do("map " + other)
		h.do("read " + path)
		tid := h.do("map " + path)
		after := monotonic(t)
		ev := next(t, w, h.pid, 0)
		if ev.Time < before || ev.Time > after || fmt.Sprint(ev.TID) != tid {
			t.Errorf("time %d, thread %d, want it in [%d, %d] by thread %s", ev.Time, ev.TID, before, after, tid)
		}
		maps, err := FS{}.Maps(h.pid, true)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, m := range maps {
			found = found || m == ev.Library.Mapping
		}
		if !found || ev.Library.Path != path {
			t.Errorf("event = %+v, which is none of the mappings %+v", ev, maps)
		}
	}
}

// The dynamic loader maps a library as a whole, then its parts.
func TestWatchMapsOfLoader(t *testing.T) {
	w := watch(t)
	dir := t.TempDir()
	content, err := os.ReadFile(someLibrary(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "libcudart.so.12")
	testkit.WriteProgram(t, path, content)
	cmd := exec.Command("/bin/cat")
	cmd.Env = []string{"LD_PRELOAD=" + path}
	c := testkit.Start(t, cmd)
	ev := next(t, w, uint32(c.PID()), 0)
	if ev.Library.Lib != events.LibCudart || ev.Library.Path != path {
		t.Errorf("event = %+v, want %s", ev, path)
	}
	f, uprobe, err := FS{}.OpenMapped(ev.PID, ev.Library.Mapping)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := os.ReadFile(uprobe); err != nil || string(got) != string(content) {
		t.Errorf("%s has %d bytes, %v, want %d", uprobe, len(got), err, len(content))
	}
}

// someLibrary finds a harmless shared library of the machine.
func someLibrary(t *testing.T) string {
	t.Helper()
	c := testkit.Start(t, exec.Command("/bin/cat"))
	c.Send("up")
	c.Line("up")
	maps, err := FS{}.Maps(uint32(c.PID()), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps {
		libm := filepath.Join(filepath.Dir(m.Path), "libm.so.6")
		if strings.HasPrefix(filepath.Base(m.Path), "libc.so") {
			if _, err := os.Stat(libm); err == nil {
				return libm
			}
		}
	}
	testkit.NeedKernel(t, "glibc, for its loader", false)
	return ""
}

// Without Look, a half-full buffer wakes the reader.
func TestWatchMapsLost(t *testing.T) {
	w := watchAlone(t)
	h := startHelper(t, nil)
	h.do("storm " + elfFile(t, filepath.Join(t.TempDir(), "libcuda.so.1"), 'A')) // nobody reads meanwhile
	seen := 0
	for {
		list, err := w.Read()
		if errors.Is(err, ErrLostMaps) {
			break
		}
		if err != nil {
			t.Fatalf("after %d events: %v", seen, err)
		}
		for _, ev := range list {
			if ev.PID == h.pid {
				seen++
			}
		}
	}
	if seen == 0 {
		t.Error("no event before the loss")
	}
	looking(t, w)
	h.do("map " + elfFile(t, filepath.Join(t.TempDir(), "libnccl.so.2"), 'B'))
	next(t, w, h.pid, events.LibNCCL)
}

func TestWatchMapsDeadline(t *testing.T) {
	w := watch(t)
	if err := w.SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	for { // other tests' processes may map libraries
		if _, err := w.Read(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Read: %v, want that the deadline has passed", err)
			}
			break
		}
	}
	if err := w.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	h := startHelper(t, nil)
	h.do("map " + elfFile(t, filepath.Join(t.TempDir(), "libcuda.so.1"), 'A'))
	next(t, w, h.pid, 0)
}

func TestWatchMapsClose(t *testing.T) {
	testkit.LeakCheck(t)
	w := watch(t)
	ended := make(chan error)
	go func() {
		for {
			if _, err := w.Read(); err != nil && !errors.Is(err, ErrLostMaps) {
				ended <- err
				return
			}
		}
	}()
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read that waited: %v, want that it is closed", err)
	}
	if _, err := w.Read(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read afterwards: %v", err)
	}
	if err := w.SetDeadline(time.Now()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("SetDeadline afterwards: %v", err)
	}
}

// A CPU that comes online later is watched too, and counts as a loss, since it may have missed
// mappings. One that went offline again is skipped.
func TestWatchMapsNewCPU(t *testing.T) {
	testkit.NeedRoot(t)
	all, err := OnlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	testkit.NeedKernel(t, "two CPUs", len(all) > 1)
	online := all[:1]
	w, err := watchMaps(Names{}, func() ([]int, error) { return online, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	looking(t, w)
	w.mu.Lock()
	online = append(all[:len(all):len(all)], maxCPUs-1)
	w.checked = time.Time{}
	w.mu.Unlock()
	testkit.NeedTool(t, "taskset")
	h := startHelper(t, func(c *exec.Cmd) { // maps a library on the first CPU
		c.Path, c.Args = "/usr/bin/taskset", append([]string{"taskset", "-c", fmt.Sprint(all[0])}, c.Path)
	})
	h.do("map " + elfFile(t, filepath.Join(t.TempDir(), "libcuda.so.1"), 'A'))
	for lost := false; !lost; {
		_, err := w.Read()
		lost = errors.Is(err, ErrLostMaps)
		if err != nil && !lost {
			t.Fatal(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.cpus) != len(all) {
		t.Errorf("%d CPUs are watched, want %d", len(w.cpus), len(all))
	}
}

func TestWatchMapsWithoutCPUs(t *testing.T) {
	testkit.LeakCheck(t)
	broken := errors.New("no list")
	for name, online := range map[string]func() ([]int, error){
		"none":    func() ([]int, error) { return nil, nil },
		"no list": func() ([]int, error) { return nil, broken },
		"gone":    func() ([]int, error) { return []int{maxCPUs - 1}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			if w, err := watchMaps(Names{}, online); err == nil || w != nil {
				t.Errorf("watchMaps = %v, %v", w, err)
			}
		})
	}
}
