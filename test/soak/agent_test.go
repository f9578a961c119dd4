//go:build measure

package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingero/internal/lock"
	"ingero/internal/testkit"
	"ingero/internal/wire"
)

// agent is one run of ingero.
type agent struct {
	t     *testing.T
	child *testkit.Child
	dir   string
	place lock.Place
	state wire.TraceState // the last state read
	began time.Time
	most  int64 // maximum database size in bytes, over all states read
}

// mostDB is the size limit of the database.
const mostDB = 64 << 20

// begin starts a trace of the nursery, and waits until it traces.
func (s *soak) begin(args ...string) *agent {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	a := &agent{t: s.t, dir: s.lock, place: place(s.lock), began: time.Now()}
	// Its output of each second is discarded.
	cmd := exec.Command("sh", append([]string{"-c", `exec "$0" "$@" >/dev/null`, self, "trace", "--pid", strconv.Itoa(s.nursery.PID()), "--db", s.db, "--max-db", fmt.Sprint(mostDB>>20, "m")}, args...)...)
	cmd.Env = append(os.Environ(), asIngero+"="+s.lock, "TZ=UTC")
	a.child = testkit.Start(s.t, cmd)
	s.pressed(a.child.PID())
	testkit.Eventually(s.t, "the first calls", func() bool { return a.tick() && a.state.Calls > 0 })
	s.starts = append(s.starts, time.Since(a.began))
	return a
}

// tick reads the agent's state, and reports whether it is new.
func (a *agent) tick() bool {
	h, err := a.place.Holder()
	if err != nil || h == nil || h.PID != a.child.PID() {
		return false
	}
	s, err := a.place.State(*h)
	if err != nil || !s.Updated.After(a.state.Updated) {
		return false
	}
	a.state, a.most = s, max(a.most, s.DBBytes)
	return true
}

// bounded checks that the database never exceeded its limit.
func (a *agent) bounded() {
	a.t.Helper()
	if a.most > mostDB*101/100 || a.most == 0 {
		a.t.Errorf("the database had %d bytes, of %d", a.most, mostDB)
	}
}

// end ends the agent, and checks its exit status.
func (a *agent) end() {
	a.t.Helper()
	a.child.Signal(syscall.SIGINT)
	if err := a.child.Wait(); err != nil {
		a.t.Errorf("the agent ended with %v:\n%s", err, a.child.Stderr())
	}
	a.bounded()
}

// kill kills the agent with SIGKILL.
func (a *agent) kill() {
	a.t.Helper()
	a.child.Signal(syscall.SIGKILL)
	_ = a.child.Wait()
	a.bounded()
}

// size is an ingero process's use of resources that could grow without bound.
type size struct {
	memory                              int // KiB, including swapped memory
	fds, maps, mappings, threads, gorou int
}

// size reads the agent's size.
func (a *agent) size() (z size) {
	a.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", a.child.PID())
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		a.t.Fatal(err)
	}
	z.memory, z.threads = field(string(status), "VmRSS:")+field(string(status), "VmSwap:"), field(string(status), "Threads:")
	fds, err := filepath.Glob(proc + "fdinfo/*")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, fd := range fds {
		if info, err := os.ReadFile(fd); err == nil { // otherwise closed meanwhile
			z.fds++
			if strings.Contains(string(info), "map_id:") {
				z.maps++
			}
		}
	}
	mappings, err := os.ReadFile(proc + "maps")
	if err != nil {
		a.t.Fatal(err)
	}
	z.mappings = strings.Count(string(mappings), "\n")
	file := filepath.Join(a.dir, goroutines)
	_ = os.Remove(file)
	a.child.Signal(syscall.SIGUSR2)
	testkit.Eventually(a.t, "the count of goroutines", func() bool {
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		z.gorou, err = strconv.Atoi(string(text))
		return err == nil
	})
	return z
}

// field returns the number after a word at the start of a line.
func field(text, word string) (n int) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}

// pressed puts the agent into a memory cgroup that another process fills.
func (s *soak) pressed(pid int) {
	if s.memory == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(s.memory, "cgroup.procs"), fmt.Append(nil, pid), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// agentMemory limits the memory of the agent and of the process that fills it: the agent's own
// memory, its database, which lies on a file system in memory, and a reserve.
const agentMemory = 512 << 20

// pressing repeatedly reads a file larger than agentMemory. The OOM killer chooses it first. The
// file's pages are charged to it only if it is in its cgroup when it writes them.
const pressing = `echo 1000 >/proc/self/oom_score_adj; echo ready; read x
dd if=/dev/zero of="$0" bs=1M count=650 2>/dev/null; echo written
while cat "$0"; do sleep 5; done >/dev/null`

// memoryRoot is the directory of memory cgroups, version 1.
const memoryRoot = "/sys/fs/cgroup/memory"

// needMemory skips the test if memory cgroups of version 1 are missing.
func needMemory(t *testing.T) {
	t.Helper()
	_, err := os.Stat(memoryRoot + "/cgroup.procs")
	testkit.NeedKernel(t, "the memory controller of cgroups, version 1", err == nil)
}

// press creates the cgroup: the agent's pages are reclaimed again and again.
func (s *soak) press() {
	t := s.t
	dir, err := os.MkdirTemp(memoryRoot, "ingero-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testkit.Eventually(t, "the memory cgroup's end", func() bool { return os.Remove(dir) == nil }) })
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), fmt.Append(nil, agentMemory), 0o644); err != nil {
		t.Fatal(err)
	}
	s.reader = testkit.Start(t, exec.Command("sh", "-c", pressing, filepath.Join(s.dir, "filler")))
	s.reader.Line("ready")
	s.memory = dir
	s.pressed(s.reader.PID())
	s.reader.Send("go")
	s.reader.Line("written")
}

// short checks that memory was short throughout.
func (s *soak) short() {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.memory, "memory.failcnt"))
	if err != nil {
		s.t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if s.t.Logf("memory was short %d times", n); err != nil || n == 0 || !alive(s.reader.PID()) {
		s.t.Errorf("memory was short %d times (%v), and who takes it lives: %v", n, err, alive(s.reader.PID()))
	}
}

// alive reports whether a process has not exited.
func alive(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(state), ") Z ")
}
