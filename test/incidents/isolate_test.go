//go:build measure || smoke

package incidents

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// group is a directory of a cgroup hierarchy.
type group string

// v1 is the mount point of version 1 hierarchies.
const v1 = "/sys/fs/cgroup/"

// weigh gives a cgroup a hundred times the default weight.
func (g group) weigh(t testing.TB) {
	t.Helper()
	// The file of cgroup version 1, then of version 2.
	err := g.write("cpu.shares", "102400")
	if errors.Is(err, fs.ErrNotExist) {
		err = g.write("cpu.weight", "10000")
	}
	testkit.NeedKernel(t, "the CPU controller of cgroups", err == nil)
}

// hierarchy returns the root of the CPU controller's hierarchy: see testkit.Cgroup.
func hierarchy() group {
	if _, err := os.Stat(v1 + "cpu/cgroup.procs"); err == nil {
		return v1 + "cpu"
	}
	return group(strings.TrimSuffix(v1, "/"))
}

// isolateSelf gives ingero the same weight as the runs: beside cgroups of a hundredfold weight it
// would hardly run.
func isolateSelf(t testing.TB) {
	t.Helper()
	was, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	home := hierarchy()
	for line := range strings.Lines(strings.TrimSpace(string(was))) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && (f[1] == "cpu" || f[1] == "") && home == hierarchy() {
			home += group(f[2])
		}
	}
	path, add := testkit.Cgroup(t)
	t.Cleanup(func() {
		if err := home.write("cgroup.procs", fmt.Sprint(os.Getpid())); err != nil {
			t.Error(err)
		}
	})
	add(os.Getpid())
	(hierarchy() + group(path)).weigh(t)
}

// isolate creates a cgroup of a hundredfold weight for a run's processes, so that other programs
// take hardly any time of their CPUs. In it, it creates a cgroup for the victim.
func isolate(t testing.TB) (all, victim group) {
	t.Helper()
	path, _ := testkit.Cgroup(t, "victim")
	victim = hierarchy() + group(path)
	all = group(filepath.Dir(string(victim)))
	all.weigh(t)
	return all, victim
}

// control creates a cgroup in another controller's hierarchy for a run's processes.
func (r *run) control(controller string) group {
	r.t.Helper()
	dir, err := os.MkdirTemp(v1+controller, "ingero-test-")
	testkit.NeedKernel(r.t, "the "+controller+" controller of cgroups, version 1", err == nil)
	g := group(dir)
	r.t.Cleanup(func() { r.remove(g, group(v1+controller)) })
	return g
}

// remove moves a cgroup's processes to another one, and removes it.
func (r *run) remove(g, to group) {
	testkit.Eventually(r.t, "the cgroup's end", func() bool {
		text, _ := os.ReadFile(filepath.Join(string(g), "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(text)) {
			_ = to.write("cgroup.procs", pid) // the process may have exited
		}
		return os.Remove(string(g)) == nil
	})
}

// write sets one of the cgroup's files.
func (g group) write(file, text string) error {
	return os.WriteFile(filepath.Join(string(g), file), []byte(text), 0o644)
}

// set writes one of the cgroup's files, or ends the test.
func (r *run) set(g group, file, format string, args ...any) {
	r.t.Helper()
	if err := g.write(file, fmt.Sprintf(format, args...)); err != nil {
		r.t.Fatal(err)
	}
}

// join moves a process into the cgroup.
func (r *run) join(g group, pid int) {
	r.t.Helper()
	r.set(g, "cgroup.procs", "%d", pid)
}

// number reads the number after a word in one of the cgroup's files.
func (g group) number(file, word string) (n uint64) {
	text, err := os.ReadFile(filepath.Join(string(g), file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, word+" %d", &n); err == nil {
			return n
		}
	}
	return 0
}
