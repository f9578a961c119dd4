package incidents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// cgroups is the hierarchy in which the scheduler's groups are: see testkit.Cgroup.
func cgroups() string {
	if root := "/sys/fs/cgroup/cpu"; exists(filepath.Join(root, "cgroup.procs")) {
		return root
	}
	return "/sys/fs/cgroup"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isolate makes a group for a run's processes that counts for a hundred: what else runs on
// the machine takes hardly any of their CPUs. It returns its path from the hierarchy's
// root, and what puts a process in.
func isolate(t testing.TB) (path string, add func(pid int)) {
	t.Helper()
	path, add = testkit.Cgroup(t, "run")
	top := filepath.Join(cgroups(), strings.Split(path, "/")[1])
	// The files of the first version, and of the second.
	err := os.WriteFile(filepath.Join(top, "cpu.shares"), []byte("102400"), 0o644)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		err = os.WriteFile(filepath.Join(top, "cpu.weight"), []byte("10000"), 0o644)
	}
	testkit.NeedKernel(t, "the CPU controller of cgroups", err == nil)
	return path, add
}
