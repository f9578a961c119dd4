package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// The limiting group is reported with its value and file, in each layout of cgroups, along with the
// threads that used the quota.
func TestLimits(t *testing.T) {
	const (
		v2     = "23 1 0:7 / /sys/fs/cgroup rw shared:4 - cgroup2 none rw\n"
		hybrid = "22 1 0:6 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n21 1 0:5 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n23 1 0:7 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
		libpod = "/machine.slice/libpod-3f2b.scope"
		user   = "/user.slice/user-1003.slice"
		gib    = 1 << 30
	)
	thread := func(name string, ticks int) string {
		return fmt.Sprintf("7 (%s) S 1 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 1 1 1\n", name, ticks)
	}
	for _, tt := range []struct {
		name, source, mounts, cgroup string
		files                        func(n int) map[string]string
		want                         []tick.HostSum
	}{
		{"a container of podman in a group of its own", "FIELD 10: podman, libpod-<id>.scope/container", v2, "0::" + libpod + "/container\n", func(n int) map[string]string {
			return map[string]string{
				"sys/fs/cgroup" + libpod + "/container/cpu.stat": "nr_throttled 0\nthrottled_usec 0\n", "sys/fs/cgroup" + libpod + "/container/cpu.max": "max 100000\n",
				"sys/fs/cgroup" + libpod + "/cpu.stat": fmt.Sprintf("nr_throttled %d\nthrottled_usec %d\n", 5+3*n, 90_000*n), "sys/fs/cgroup" + libpod + "/cpu.max": "200000 100000\n",
			}
		}, []tick.HostSum{sum(tick.HostLimit, "200000 100000 in "+libpod+" at /sys/fs/cgroup"+libpod+"/cpu.max", 7, 3, 0, 90_000_000)}},
		{"a quota on a user's slice, version 1", "FIELD 10: systemd, CPUQuota on user-1003.slice", hybrid, "4:memory:/\n3:cpu,cpuacct:" + user + "\n0::" + user + "/session-2.scope\n", func(n int) map[string]string {
			at := "sys/fs/cgroup/cpu,cpuacct" + user
			return map[string]string{at + "/cpu.stat": fmt.Sprintf("nr_throttled %d\nthrottled_time %d\n", 1+n, 40_000_000*n), at + "/cpu.cfs_quota_us": "50000\n", at + "/cpu.cfs_period_us": "100000\n"}
		}, []tick.HostSum{sum(tick.HostThrottled, user, 0, 1, 0, 40_000_000), sum(tick.HostLimit, "50000 100000 in "+user+" at /sys/fs/cgroup/cpu,cpuacct"+user+"/cpu.cfs_quota_us", 7, 1, 0, 40_000_000)}},
		{"memory, of an ancestor", "FIELD 10: the same for memory limits", v2, "0::/system.slice/job.service/worker\n", func(n int) map[string]string {
			at := "sys/fs/cgroup/system.slice/job.service"
			return map[string]string{
				at + "/worker/memory.events.local": "high 0\nmax 0\n", at + "/worker/memory.max": "max\n",
				at + "/memory.events.local": fmt.Sprintf("low 0\nhigh 0\nmax %d\n", 2+5*n), at + "/memory.max": fmt.Sprint(2 * gib),
				at + "/memory.stat": fmt.Sprintf("anon 4096\nworkingset_refault_anon 9\nworkingset_refault_file %d\n", 20+30*n),
			}
		}, []tick.HostSum{
			sum(tick.HostLimit, "2147483648 in /system.slice/job.service at /sys/fs/cgroup/system.slice/job.service/memory.max", 7, 5, 0, 0),
			sum(tick.HostRefault, "", 7, 30, 30*pageBytes, 0),
		}},
		{"a memory limit of version 1", "FIELD 10: hybrid", hybrid, "4:memory:/docker/3f2b\n0::/docker/3f2b\n", func(n int) map[string]string {
			at := "sys/fs/cgroup/memory/docker/3f2b"
			return map[string]string{at + "/memory.failcnt": fmt.Sprint(7 + n), at + "/memory.limit_in_bytes": fmt.Sprint(gib),
				at + "/memory.stat": fmt.Sprintf("workingset_refault_file 1\ntotal_workingset_refault_file %d\n", 4+n)}
		}, []tick.HostSum{
			sum(tick.HostAtLimit, "/docker/3f2b", 0, 1, 0, 0),
			sum(tick.HostLimit, "1073741824 in /docker/3f2b at /sys/fs/cgroup/memory/docker/3f2b/memory.limit_in_bytes", 7, 1, 0, 0),
			sum(tick.HostRefault, "", 7, 1, pageBytes, 0),
		}},
		{"a quota reached for the first time", "a unit that bursts after a quiet start", v2, "0::/system.slice/job.service\n", func(n int) map[string]string {
			at := "sys/fs/cgroup/system.slice/job.service"
			return map[string]string{at + "/cpu.stat": fmt.Sprintf("nr_throttled %d\nthrottled_usec %d\n", []int{0, 0, 9}[n], []int{0, 0, 900_000}[n]), at + "/cpu.max": "200000 100000\n"}
		}, []tick.HostSum{
			sum(tick.HostThrottled, "/system.slice/job.service", 0, 9, 0, 900_000_000),
			sum(tick.HostLimit, "200000 100000 in /system.slice/job.service at /sys/fs/cgroup/system.slice/job.service/cpu.max", 7, 9, 0, 900_000_000),
		}},
		{"OpenMP threads", "kserve#1031: 192 threads against a limit of 8 cores", v2, "0::/kubepods/pod1/c1\n", func(n int) map[string]string {
			at := "sys/fs/cgroup/kubepods/pod1/c1"
			out := map[string]string{
				at + "/cpu.stat": fmt.Sprintf("usage_usec 0\nnr_throttled %d\nthrottled_usec %d\n", 4+9*n, 900_000*n), at + "/cpu.max": "800000 100000\n", at + "/cgroup.procs": "7\n8\n",
				"proc/8/task/8/stat": thread("pt_data_worker", 3+100*n),
			}
			for i := range 192 {
				out[fmt.Sprintf("proc/7/task/%d/stat", 100+i)] = thread("python3", 5+4*n)
			}
			return out
		}, []tick.HostSum{
			sum(tick.HostThrottled, "/kubepods/pod1/c1", 0, 9, 0, 900_000_000),
			sum(tick.HostLimit, "800000 100000 in /kubepods/pod1/c1 at /sys/fs/cgroup/kubepods/pod1/c1/cpu.max", 7, 9, 0, 900_000_000),
			sum(tick.HostThreads, "192 python3", 7, 0, 0, 192*40_000_000),
			sum(tick.HostThreads, "1 pt_data_worker", 8, 0, 0, 1_000_000_000),
		}},
		{"a simulation in another session", "systemd: CPUQuota on user-1003.slice", v2, "0::" + user + "/session-2.scope\n", func(n int) map[string]string {
			at := "sys/fs/cgroup" + user
			return map[string]string{at + "/cpu.stat": fmt.Sprintf("nr_throttled %d\nthrottled_usec %d\n", 4+9*n, 900_000*n), at + "/cpu.max": "800000 100000\n",
				at + "/session-2.scope/cpu.stat": "nr_throttled 0\nthrottled_usec 0\n", at + "/session-2.scope/cgroup.procs": "7\n8\n", at + "/session-5.scope/app/cgroup.procs": "9\n",
				"proc/7/task/7/stat": thread("python3", 5+2*n), "proc/8/task/8/stat": thread("pt_data_worker", 3+n), "proc/9/task/9/stat": thread("sim", 100*n)}
		}, []tick.HostSum{
			sum(tick.HostLimit, "800000 100000 in "+user+" at /sys/fs/cgroup"+user+"/cpu.max", 7, 9, 0, 900_000_000),
			sum(tick.HostThreads, "1 sim", 9, 0, 0, 1_000_000_000),
			sum(tick.HostThreads, "1 python3", 7, 0, 0, 20_000_000),
			sum(tick.HostThreads, "1 pt_data_worker", 8, 0, 0, 10_000_000),
		}},
		{"a cpuset, version 2", "FIELD 10: the same for cpusets; systemd, AllowedCPUs= on system.slice", v2, "0::/system.slice/job.service/worker\n", func(n int) map[string]string {
			at, of := "sys/fs/cgroup/system.slice", []string{"0-7", "0-7", "2-3"}[n]
			return map[string]string{
				at + "/cpuset.cpus": of, at + "/cpuset.cpus.effective": of, at + "/job.service/cpuset.cpus": "0-7", at + "/job.service/cpuset.cpus.effective": of,
				at + "/job.service/worker/cpuset.cpus": "", at + "/job.service/worker/cpuset.cpus.effective": of, "proc/7/status": "Cpus_allowed:\t" + []string{"ff", "ff", "0c"}[n] + "\n",
			}
		}, []tick.HostSum{sum(tick.HostCPUsTaken, "", 7, 6, 0, 0), sum(tick.HostLimit, "2-3 in /system.slice at /sys/fs/cgroup/system.slice/cpuset.cpus", 7, 1, 0, 0)}},
		{"a cpuset of a group below, version 2", "FIELD 10: the same for cpusets", v2, "0::/lab/train\n", func(n int) map[string]string {
			at, of := "sys/fs/cgroup/lab", []string{"0-3", "0-3", "1"}[n]
			return map[string]string{at + "/cpuset.cpus": "0-3", at + "/cpuset.cpus.effective": "0-3", at + "/train/cpuset.cpus": of, at + "/train/cpuset.cpus.effective": of,
				"proc/7/status": "Cpus_allowed:\t" + []string{"f", "f", "2"}[n] + "\n"}
		}, []tick.HostSum{sum(tick.HostCPUsTaken, "", 7, 3, 0, 0), sum(tick.HostLimit, "1 in /lab/train at /sys/fs/cgroup/lab/train/cpuset.cpus", 7, 1, 0, 0)}},
		{"a cpuset, hybrid", "FIELD 10: hybrid; Slurm, task/cgroup with ConstrainCores", hybrid + "24 1 0:8 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n", "5:cpuset:/slurm/uid_1000/job_4711/step_0\n0::/slurm\n", func(n int) map[string]string {
			at, of := "sys/fs/cgroup/cpuset/slurm", []string{"0-3", "0-3", "0,2"}[n]
			return map[string]string{at + "/cpuset.cpus": "0-7", at + "/cpuset.effective_cpus": "0-7", at + "/uid_1000/cpuset.cpus": "0-3", at + "/uid_1000/cpuset.effective_cpus": "0-3",
				at + "/uid_1000/job_4711/cpuset.cpus": of, at + "/uid_1000/job_4711/cpuset.effective_cpus": of, at + "/uid_1000/job_4711/step_0/cpuset.cpus": of,
				at + "/uid_1000/job_4711/step_0/cpuset.effective_cpus": of, "proc/7/status": "Cpus_allowed:\t" + []string{"f", "f", "5"}[n] + "\n"}
		}, []tick.HostSum{sum(tick.HostCPUsTaken, "", 7, 2, 0, 0), sum(tick.HostLimit, "0,2 in /slurm/uid_1000/job_4711 at /sys/fs/cgroup/cpuset/slurm/uid_1000/job_4711/cpuset.cpus", 7, 1, 0, 0)}},
		{"an affinity", "taskset(1)", v2, "0::/lab\n", func(n int) map[string]string {
			return map[string]string{"sys/fs/cgroup/lab/cpuset.cpus": "0-3", "sys/fs/cgroup/lab/cpuset.cpus.effective": "0-3", "proc/7/status": "Cpus_allowed:\t" + []string{"f", "f", "1"}[n] + "\n"}
		}, []tick.HostSum{sum(tick.HostCPUsTaken, "", 7, 3, 0, 0)}},
		{"no limit", "a unit without one", v2, "0::/system.slice/job.service\n", func(n int) map[string]string {
			return map[string]string{"sys/fs/cgroup/system.slice/job.service/cpu.stat": "nr_throttled 0\nthrottled_usec 0\n", "sys/fs/cgroup/system.slice/job.service/cpu.max": "max 100000\n"}
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := func(n int) map[string]string {
				out := tt.files(n)
				out["proc/self/mountinfo"], out["proc/7/cgroup"] = tt.mounts, tt.cgroup
				return out
			}
			root := testkit.Tree(t, files(0))
			p := Poller{Root: root, Boot: time.Minute}
			p.Read([]uint32{7}, false)
			write(t, root, files(1))
			p.Read([]uint32{7}, false) // from here on its threads are read
			write(t, root, files(2))
			got := p.Read([]uint32{7}, false)
			if d := diff.Diff(tt.want, got); d != "" {
				t.Errorf("%s: -want +got:\n%s", tt.source, d)
			}
			for i := range got {
				if got[i].Kind != tick.HostLimit {
					continue
				}
				if l, ok := tick.ParseLimit(got[i].Object); !ok || l.String() != got[i].Object || !strings.HasSuffix(filepath.Dir(l.File), l.Group) {
					t.Errorf("%q is read as %+v", got[i].Object, l)
				}
			}
		})
	}
}

// If too many threads use quotas, those of the quota that was reached last are read.
func TestThreadsOfLastQuota(t *testing.T) {
	const thread = "%d (python3) S 1 1 1 0 -1 0 0 0 0 0 0 %d 0 0 0 20 0 1 0 1 1 1\n"
	files := func(n int) map[string]string {
		out := map[string]string{"proc/self/mountinfo": "23 1 0:7 / /sys/fs/cgroup rw - cgroup2 none rw\n"}
		for pid, times := range map[int]int{7: min(n, 1), 8: max(n-1, 0)} {
			at := fmt.Sprintf("sys/fs/cgroup/job-%d/", pid)
			out[fmt.Sprintf("proc/%d/cgroup", pid)] = fmt.Sprintf("0::/job-%d\n", pid)
			out[at+"cpu.max"], out[at+"cpu.stat"] = "200000 100000\n", fmt.Sprintf("nr_throttled %d\nthrottled_usec 0\n", times)
		}
		for tid := range maxThreads {
			out[fmt.Sprintf("proc/7/task/%d/stat", 100+tid)] = fmt.Sprintf(thread, 100+tid, 5+4*n)
		}
		out["proc/8/task/8/stat"] = fmt.Sprintf(thread, 8, 5+4*n)
		return out
	}
	root := testkit.Tree(t, files(0))
	p := Poller{Root: root, Boot: time.Minute}
	var got tick.HostSum
	for n := range 4 {
		write(t, root, files(n))
		for _, s := range p.Read([]uint32{7, 8}, false) {
			if s.Kind == tick.HostThreads && s.PID == 8 {
				got.Add(&s)
			}
		}
	}
	if got.NS != 40_000_000 {
		t.Errorf("the thread of the second group used %d ns, want 40 ms", got.NS)
	}
}

// After a quota was reached, even once, its threads' CPU time is read for a while.
func TestThreadsAfterThrottling(t *testing.T) {
	const at = "sys/fs/cgroup/job"
	files := func(n int) map[string]string {
		return map[string]string{
			"proc/self/mountinfo": "23 1 0:7 / /sys/fs/cgroup rw - cgroup2 none rw\n", "proc/7/cgroup": "0::/job\n",
			at + "/cpu.max": "200000 100000\n", at + "/cpu.stat": fmt.Sprintf("nr_throttled %d\nthrottled_usec 0\n", min(n, 1)),
			"proc/7/task/7/stat": fmt.Sprintf("7 (python3) S 1 1 1 0 -1 0 0 0 0 0 0 %d 0 0 0 20 0 1 0 1 1 1\n", 5+4*n),
		}
	}
	root := testkit.Tree(t, files(0))
	p := Poller{Root: root, Boot: time.Minute}
	var got tick.HostSum
	rounds := 0
	for n := range 2 * threadRounds {
		write(t, root, files(n))
		for _, s := range p.Read([]uint32{7}, false) {
			if s.Kind == tick.HostThreads {
				rounds++
				got.Add(&s)
			}
		}
	}
	if rounds != threadRounds || got.NS != threadRounds*40_000_000 {
		t.Errorf("%d rounds, %d ns, want %d rounds with 40 ms each", rounds, got.NS, threadRounds)
	}
}

// A process is killed for a memory limit only if a group of it has run out of memory at one.
func TestAtMemoryLimit(t *testing.T) {
	const (
		v2      = "23 1 0:7 / /sys/fs/cgroup rw - cgroup2 none rw\n"
		hybrid  = "22 1 0:6 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n21 1 0:5 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n23 1 0:7 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
		pod     = "sys/fs/cgroup/pod"
		quiet   = "low 0\nhigh 0\nmax 0\noom 0\noom_kill 1\n"
		atLimit = "low 0\nhigh 0\nmax 40\noom 0\noom_kill 1\n"
		ranOut  = "low 0\nhigh 0\nmax 41\noom 1\noom_kill 1\n"
	)
	for _, tt := range []struct {
		name, mounts, cgroup, recorded string
		files                          map[string]string
		want                           bool
	}{
		{"no limit", v2, "0::/pod/job\n", "", map[string]string{pod + "/job/memory.events.local": quiet, pod + "/memory.events.local": quiet}, false},
		{"the machine, with a limit that only evicted pages", v2, "0::/pod/job\n", "", map[string]string{pod + "/job/memory.events.local": atLimit, pod + "/memory.events.local": quiet}, false},
		{"the own limit", v2, "0::/pod/job\n", "", map[string]string{pod + "/job/memory.events.local": ranOut, pod + "/memory.events.local": quiet}, true},
		{"the parent's limit", v2, "0::/pod/job\n", "", map[string]string{pod + "/job/memory.events.local": quiet, pod + "/memory.events.local": ranOut}, true},
		{"a limit of a group beside it", v2, "0::/pod/job\n", "", map[string]string{pod + "/job/memory.events.local": quiet, pod + "/memory.events.local": quiet, pod + "/memory.events": ranOut, pod + "/other/memory.events.local": ranOut}, false},
		{"before Linux 5.2", v2, "0::/pod/job\n", "", map[string]string{pod + "/job/memory.events": ranOut}, true},
		{"no memory controller", v2, "0::/pod/job\n", "", map[string]string{pod + "/job/cpu.stat": ""}, false},
		{"the group is gone", v2, "0::/pod/job\n", "", map[string]string{pod + "/memory.events.local": quiet}, true},
		{"the process is gone", v2, "", "", nil, true},
		{"a limit, hybrid", hybrid, "4:memory:/pod/job\n0::/pod\n", "", map[string]string{"sys/fs/cgroup/memory/pod/job/memory.failcnt": "3\n", "sys/fs/cgroup/unified/pod/cgroup.procs": ""}, true},
		{"no limit, hybrid", hybrid, "4:memory:/job\n3:cpu:/job\n0::/\n", "", map[string]string{"sys/fs/cgroup/cpu/job/cpu.stat": "", "sys/fs/cgroup/memory/job/memory.failcnt": "0\n", "sys/fs/cgroup/memory/memory.failcnt": "3\n"}, false},
		{"ending, hybrid", hybrid, "4:memory:/\n3:cpu:/\n0::/system.slice/x\n", "", map[string]string{"sys/fs/cgroup/unified/system.slice/x/cgroup.procs": ""}, true},
		{"ending and recorded, hybrid", hybrid, "4:memory:/\n3:cpu:/\n0::/system.slice/x\n", "/job", map[string]string{"sys/fs/cgroup/memory/job/memory.failcnt": "0\n"}, false},
		{"the process is gone, but recorded", v2, "", "/pod/job", map[string]string{pod + "/job/memory.events.local": quiet}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"proc/self/mountinfo": tt.mounts}
			if tt.cgroup != "" {
				files["proc/7/cgroup"] = tt.cgroup
			}
			maps.Copy(files, tt.files)
			p := Poller{Root: testkit.Tree(t, files)}
			if got := p.AtMemoryLimit(7, tt.recorded); got != tt.want {
				t.Errorf("killed for a limit: %v, want %v", got, tt.want)
			}
		})
	}
}

// A container's cgroup namespace hides the groups of other containers; their limits are read from
// the host's tree, and have their paths on the host.
func TestLimitsFromContainer(t *testing.T) {
	const (
		node  = "kubepods.slice/kubepods-burstable.slice/"
		own   = node + "kubepods-pod1.slice/cri-containerd-agent.scope"
		tree  = "proc/1/root/sys/fs/cgroup/"
		quota = "200000 100000 in /"
	)
	limit := func(group string, above ...string) []tick.HostSum {
		out := []tick.HostSum{sum(tick.HostThrottled, "/"+group, 0, 3, 0, 90_000_000)}
		for _, of := range append(above, group) {
			out = append(out, sum(tick.HostLimit, quota+of+" at /sys/fs/cgroup/"+of+"/cpu.max", 7, 3, 0, 90_000_000))
		}
		return out
	}
	const job, secret = node + "kubepods-pod2.slice/cri-containerd-job.scope", "etc"
	for _, tt := range []struct {
		name, cgroup string
		hidden       bool // the host's tree
		want         []tick.HostSum
		lacks        int
	}{
		{"another pod", "0::/../../kubepods-pod2.slice/cri-containerd-job.scope\n", false, limit(job), 0},
		{"a group of another slice", "0::/../../../../system.slice/job.service\n", false, limit("system.slice/job.service"), 0},
		{"the own container", "0::/\n", false, limit(own), 0},
		{"a group of the own container", "0::/worker\n", false, limit(own+"/worker", own), 0},
		{"the root", "0::/../../../..\n", false, nil, 0},
		{"outside of the tree", "0::/../../../../../" + secret + "\n", false, nil, 0},
		{"outside of the tree, from inside", "0::/worker/../../../../../../../" + secret + "\n", false, nil, 0},
		{"another pod, no host tree", "0::/../../kubepods-pod2.slice/cri-containerd-job.scope\n", true, nil, 1},
		{"a group beside the own, no host tree", "0::/../worker\n", true, nil, 1},
		{"a group of the own container, no host tree", "0::/worker\n", true, limit("worker"), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := func(n int) map[string]string {
				out := map[string]string{"proc/self/mountinfo": "23 1 0:7 / /sys/fs/cgroup rw - cgroup2 none rw\n",
					"proc/7/cgroup": tt.cgroup, "proc/1/cgroup": "0::/../../../../init.scope\n"}
				for _, psi := range []string{"cpu", "memory", "io"} {
					out["proc/pressure/"+psi] = "some total=0\n"
				}
				out["proc/vmstat"] = "pswpin 0\n"
				at := tree
				if tt.hidden {
					at = "sys/fs/cgroup/"
				}
				for _, group := range []string{job, "system.slice/job.service", own, own + "/worker", "worker",
					"kubepods-pod2.slice/cri-containerd-job.scope", "../" + secret, secret} {
					out[filepath.Join(at, group, "cpu.stat")] = fmt.Sprintf("nr_throttled %d\nthrottled_usec %d\n", 5+3*n, 90_000*n)
					out[filepath.Join(at, group, "cpu.max")] = "200000 100000\n"
				}
				return out
			}
			root := testkit.Tree(t, files(0))
			if !tt.hidden { // all mounts of a hierarchy have the same inodes
				if err := os.MkdirAll(filepath.Join(root, "sys/fs"), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(filepath.Join(root, tree, own), filepath.Join(root, "sys/fs/cgroup")); err != nil {
					t.Fatal(err)
				}
			}
			p := Poller{Root: root, Boot: time.Minute}
			p.Read([]uint32{7}, false)
			write(t, root, files(1))
			if d := diff.Diff(tt.want, p.Read([]uint32{7}, false)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if len(p.Reports()) != tt.lacks {
				t.Errorf("reports %v", p.Reports())
			}
		})
	}
}

// In a container, limits of other containers are read in each hierarchy of cgroups version 1, too,
// whether or not the container has its own cgroup namespace.
func TestLimitsFromContainerVersion1(t *testing.T) {
	const (
		memory = "sys/fs/cgroup/memory"
		cpu    = "sys/fs/cgroup/cpu,cpuacct"
		tree   = "proc/1/root/"
		own    = "/kubepods/pod1/agent"
	)
	for _, tt := range []struct{ name, job, cgroup, root, init string }{
		{"own namespace", "/kubepods/pod2/job", "/../../pod2/job", "/", "/../../.."},
		{"the host's namespace", "/kubepods/pod2/job", "/kubepods/pod2/job", own, "/"},
		{"the host's namespace, a longer name", own + "2", own + "2", own, "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := func(n int) map[string]string {
				return map[string]string{
					"proc/self/mountinfo": fmt.Sprintf("22 1 0:6 %[1]s /"+cpu+" rw - cgroup cgroup rw,cpu,cpuacct\n21 1 0:5 %[1]s /"+memory+" rw - cgroup cgroup rw,memory\n", tt.root),
					"proc/7/cgroup":       fmt.Sprintf("4:memory:%[1]s\n3:cpu,cpuacct:%[1]s\n", tt.cgroup),
					"proc/1/cgroup":       fmt.Sprintf("4:memory:%[1]s\n3:cpu,cpuacct:%[1]s\n", tt.init),
					tree + memory + tt.job + "/memory.failcnt":        fmt.Sprint(7 + n),
					tree + memory + tt.job + "/memory.limit_in_bytes": "1073741824",
					tree + memory + own + "/memory.failcnt":           "0",
					tree + cpu + tt.job + "/cpu.stat":                 fmt.Sprintf("nr_throttled %d\nthrottled_time %d\n", 1+n, 40_000_000*n),
					tree + cpu + tt.job + "/cpu.cfs_quota_us":         "50000\n",
					tree + cpu + tt.job + "/cpu.cfs_period_us":        "100000\n",
					tree + cpu + own + "/cpu.stat":                    "nr_throttled 0\nthrottled_time 0\n",
				}
			}
			root := testkit.Tree(t, files(0))
			if err := os.MkdirAll(filepath.Join(root, "sys/fs/cgroup"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{memory, cpu} { // all mounts of a hierarchy have the same inodes
				if err := os.Symlink(filepath.Join(root, tree, at, own), filepath.Join(root, at)); err != nil {
					t.Fatal(err)
				}
			}
			p := Poller{Root: root, Boot: time.Minute}
			p.Read([]uint32{7}, false)
			write(t, root, files(1))
			want := []tick.HostSum{
				sum(tick.HostThrottled, tt.job, 0, 1, 0, 40_000_000),
				sum(tick.HostAtLimit, tt.job, 0, 1, 0, 0),
				sum(tick.HostLimit, "50000 100000 in "+tt.job+" at /"+cpu+tt.job+"/cpu.cfs_quota_us", 7, 1, 0, 40_000_000),
				sum(tick.HostLimit, "1073741824 in "+tt.job+" at /"+memory+tt.job+"/memory.limit_in_bytes", 7, 1, 0, 0),
			}
			if d := diff.Diff(want, p.Read([]uint32{7}, false)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
