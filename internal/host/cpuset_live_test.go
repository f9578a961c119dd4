package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// A real cpuset that becomes smaller is named, with its remaining CPUs, even if the process is in a
// group below.
func TestRealCpuset(t *testing.T) {
	root := testkit.CgroupRoot("cpuset")
	files := cpusets[""]
	if filepath.Base(root) == "cpuset" {
		files = cpusets["cpuset"]
	}
	all, err := os.ReadFile(filepath.Join(root, files.effective))
	testkit.NeedKernel(t, fmt.Sprintf("cpusets (%v)", err), err == nil)
	cpus := strings.TrimSpace(string(all))
	n := countCPUs(cpus)
	testkit.NeedKernel(t, "two CPUs", n > 1)
	path, add := testkit.CgroupIn(t, root, "box", "leaf")
	set := func(group, file, value string) {
		t.Helper()
		err := os.WriteFile(filepath.Join(root, group, file), []byte(value), 0o644)
		testkit.NeedKernel(t, fmt.Sprintf("a cpuset of one's own (%v)", err), err == nil)
	}
	box := filepath.Dir(path)
	groups := []string{filepath.Dir(box), box, path}
	for _, g := range groups { // version 1 starts with none
		if mems, err := os.ReadFile(filepath.Join(root, "cpuset.mems")); err == nil {
			set(g, "cpuset.mems", string(mems))
		}
		set(g, files.cpus, cpus)
	}
	c := testkit.Start(t, exec.Command("cat"))
	add(c.PID())
	pid := uint32(c.PID())
	p := Poller{Boot: time.Minute}
	p.Read([]uint32{pid}, false)
	first, _, _ := strings.Cut(strings.NewReplacer("-", ",").Replace(cpus), ",")
	set(path, files.cpus, first)
	set(box, files.cpus, first)
	var got []tick.HostSum
	for _, s := range p.Read([]uint32{pid}, false) {
		if s.PID == pid && (s.Kind == tick.HostCPUsTaken || s.Kind == tick.HostLimit) {
			got = append(got, s)
		}
	}
	limit := tick.Limit{Group: box, File: filepath.Join(root, box, files.cpus), Raw: first}
	want := []tick.HostSum{sum(tick.HostCPUsTaken, "", pid, uint64(n-1), 0, 0), sum(tick.HostLimit, limit.String(), pid, 1, 0, 0)}
	if d := diff.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
