package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cgroup makes a control group of the test's own with groups of these names in it, one
// inside of the other, in the first hierarchy that this machine has. It returns the path
// from the hierarchy's root, and what puts a process in. The group ends with the test:
// so must the processes, before.
func Cgroup(t testing.TB, names ...string) (path string, add func(pid int)) {
	t.Helper()
	keeper() // started now, it is not in the group of a test that puts itself into one
	root := "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
		root = "/sys/fs/cgroup"
	}
	own, err := os.MkdirTemp(root, "ingero-test-")
	NeedKernel(t, "a hierarchy to make cgroups in", err == nil)
	dirs := []string{own}
	t.Cleanup(func() {
		for len(dirs) > 0 {
			last := dirs[len(dirs)-1]
			// Its last process is gone, but maybe not yet all the way.
			Eventually(t, "the cgroup's end", func() bool { return os.Remove(last) == nil })
			dirs = dirs[:len(dirs)-1]
		}
	})
	for _, name := range names {
		dir := filepath.Join(dirs[len(dirs)-1], name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	dir := dirs[len(dirs)-1]
	return strings.TrimPrefix(dir, root), func(pid int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, pid), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
