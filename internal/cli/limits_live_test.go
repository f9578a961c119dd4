package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// limitChain is the part of a chain that the test reads.
type limitChain struct {
	Rule, Headline, Fix string
	RootCause           string `json:"root_cause"`
	PID                 uint32
	Culprits            []struct {
		What, Limit string
		Group       string `json:"limit_group"`
		File        string `json:"limit_file"`
	}
}

// If an ancestor of a job's cgroup has a quota, the chain names the ancestor, the quota and an
// applicable fix. If the job's own threads exhaust it, the chain names what sets their number.
func TestLimitsOfAncestors(t *testing.T) {
	b := newBench(t)
	// A twentieth and a tenth of a CPU, which a job also gets on a busy machine.
	one := b.limited(5_000, "--seconds", "6", "--cpu-us", "5000", "--launches", "2")
	many := b.limited(10_000, "--threads", "12", "--seconds", "6", "--cpu-us", "5000", "--launches", "2")
	trace := b.ingero("trace", "--pid", pid(one.Child)+","+pid(many.Child))
	b.tracing(2)
	one.Send("go")
	many.Send("go")
	if stdout, stderr, code := finish(t, trace); code != 0 {
		t.Fatalf("code %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, _ := b.output("explain", "--json")
	var report struct{ Chains []limitChain }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	for _, job := range []*limitedJob{one, many} {
		var c *limitChain
		for i := range report.Chains {
			if x := &report.Chains[i]; x.Rule == "cpu-throttled" && int(x.PID) == job.PID() {
				c = x
			}
		}
		if c == nil {
			t.Errorf("no chain is of the quota of %s: %s", job.group, stdout)
			continue
		}
		value := fmt.Sprintf("%g CPUs", float64(job.quota)/100_000)
		if l := c.Culprits[0]; l.Group != job.group || l.Limit != value || !strings.HasSuffix(filepath.Dir(l.File), job.group) || !strings.Contains(c.RootCause, job.group+", "+value) {
			t.Errorf("the limit is %+v of %q, want %s of %s", l, c.RootCause, value, job.group)
		}
		_, file, ok := strings.Cut(c.Fix, " | sudo tee ")
		if _, err := os.Stat(file); !ok || err != nil {
			t.Errorf("%q does not name a file that is there: %v", c.Fix, err)
		}
		own := strings.Contains(c.Headline, "used up by 12 threads of its own")
		if want := job == many; own != want || strings.Contains(c.Fix, "OMP_NUM_THREADS=1") != want {
			t.Errorf("%q, fix %q: by its own threads is %t, want %t", c.Headline, c.Fix, own, want)
		}
	}
}

// limitedJob is a job in a cgroup below the one with the quota.
type limitedJob struct {
	*testkit.Child
	group string
	quota int // us per 100 ms
}

// limited starts a training loop in such a cgroup.
func (b *bench) limited(quota int, args ...string) *limitedJob {
	b.t.Helper()
	path, add := testkit.Cgroup(b.t, "box", "leaf")
	j := &limitedJob{group: filepath.Dir(path), quota: quota}
	set := os.WriteFile(filepath.Join("/sys/fs/cgroup/cpu", j.group, "cpu.cfs_quota_us"), fmt.Append(nil, quota), 0o644)
	if set != nil {
		set = os.WriteFile(filepath.Join("/sys/fs/cgroup", j.group, "cpu.max"), fmt.Appendf(nil, "%d 100000", quota), 0o644)
	}
	testkit.NeedKernel(b.t, fmt.Sprintf("CPU quotas of cgroups (%v)", set), set == nil)
	j.Child = b.train(args...)
	add(j.PID())
	return j
}
