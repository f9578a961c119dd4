package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Cgroup creates a control group for the test with nested groups of these names, in the hierarchy
// with the CPU controller. It returns the path from the hierarchy's root, and a function that adds
// a process. The group is removed at the end of the test, so its processes must end before.
func Cgroup(t testing.TB, names ...string) (path string, add func(pid int)) {
	t.Helper()
	return CgroupIn(t, CgroupRoot("cpu"), names...)
}

// CgroupRoot returns the mount point of a controller's hierarchy: its own in version 1, or the
// unified one of version 2.
func CgroupRoot(controller string) string {
	if root := "/sys/fs/cgroup/" + controller; exists(root + "/cgroup.procs") {
		return root
	}
	return "/sys/fs/cgroup"
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// CgroupIn is Cgroup in the hierarchy that is mounted at root.
func CgroupIn(t testing.TB, root string, names ...string) (path string, add func(pid int)) {
	t.Helper()
	keeper() // start it now, outside the group that a test may move itself to
	own, err := os.MkdirTemp(root, "ingero-test-")
	NeedKernel(t, "a hierarchy to make cgroups in", err == nil)
	dirs := []string{own}
	t.Cleanup(func() {
		for len(dirs) > 0 {
			last := dirs[len(dirs)-1]
			// Its last process has ended, but may not have left the group.
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

// First gives the test's process and its children priority over everything else on the machine, in
// a control group of their own. The process is moved back when the test ends.
func First(t testing.TB) {
	t.Helper()
	_, add := Cgroup(t)
	was := CgroupOf(t, os.Getpid())
	add(os.Getpid())
	t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(was, "cgroup.procs"), fmt.Append(nil, os.Getpid()), 0o644); err != nil {
			t.Error(err)
		}
	})
	SetMaxWeight(t, CgroupOf(t, os.Getpid()))
}

// CgroupOf returns the directory of a process's control group.
func CgroupOf(t testing.TB, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.TrimSpace(string(text))) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), "cpu") {
			return "/sys/fs/cgroup/cpu" + f[2]
		}
	}
	return "/sys/fs/cgroup" + strings.TrimSpace(string(text[strings.LastIndex(string(text), ":")+1:]))
}

// SetMaxWeight gives a control group the maximum CPU weight.
func SetMaxWeight(t testing.TB, dir string) {
	t.Helper()
	if os.WriteFile(filepath.Join(dir, "cpu.shares"), []byte("262144"), 0o644) == nil {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "cpu.weight"), []byte("10000"), 0o644); err != nil {
		t.Fatal(err)
	}
}
