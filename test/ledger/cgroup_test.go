package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// quota is a cgroup with a limit on CPU time.
type quota struct{ dir string }

// newQuota makes one with so much CPU time in each period, in version 1 or 2 of
// the CPU controller, whichever this machine has.
func newQuota(t testing.TB, limit, period time.Duration) quota {
	t.Helper()
	files := map[string]string{"cpu.cfs_period_us": fmt.Sprint(period.Microseconds()), "cpu.cfs_quota_us": fmt.Sprint(limit.Microseconds())}
	root := "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(root + "/cpu.cfs_quota_us"); err != nil {
		root = "/sys/fs/cgroup"
		for _, dir := range []string{root, root + "/unified"} {
			if has, err := os.ReadFile(dir + "/cgroup.subtree_control"); err == nil && strings.Contains(string(has), "cpu") {
				root = dir
			}
		}
		files = map[string]string{"cpu.max": fmt.Sprintf("%d %d", limit.Microseconds(), period.Microseconds())}
	}
	dir, err := os.MkdirTemp(root, "ledger-test-")
	testkit.NeedKernel(t, "a CPU controller to make cgroups in", err == nil)
	t.Cleanup(func() {
		// The last process of it is gone, but maybe not yet all the way.
		testkit.Eventually(t, "the cgroup's end", func() bool { return os.Remove(dir) == nil })
	})
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			testkit.NeedKernel(t, "a CPU controller with quotas: "+err.Error(), false)
		}
	}
	return quota{dir}
}

// stat is the path of the group's account.
func (q quota) stat() string { return filepath.Join(q.dir, "cpu.stat") }

// add puts a process into the group.
func (q quota) add(t testing.TB, pid uint32) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(q.dir, "cgroup.procs"), fmt.Append(nil, pid), 0o644); err != nil {
		t.Fatal(err)
	}
}
