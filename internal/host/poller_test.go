package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

const (
	mounts = `21 1 0:5 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
22 1 0:6 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
23 1 0:7 /pod /sys/fs/cgroup/unified rw shared:4 - cgroup2 none rw
24 1 0:8 / /proc rw - proc proc rw
`
	stat = "70 (a) b) S 1 70 70 0 -1 4194304 500 0 %d 0 10 20 0 0 20 0 1 0 %d 1000 10\n"
)

// machine returns the files of a machine after n steps of each counter.
func machine(n int) map[string]string {
	psi := func(us int) string {
		return fmt.Sprintf("some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", us+20_000*n, us/2+10_000*n)
	}
	return map[string]string{
		"proc/self/mountinfo":  mounts,
		"proc/pressure/cpu":    psi(100),
		"proc/pressure/memory": psi(200),
		"proc/pressure/io":     psi(300),
		"proc/vmstat":          fmt.Sprintf("nr_free_pages 7\npswpin %d\npswpout %d\n", 40+n, 50+2*n),
		"proc/70/stat":         fmt.Sprintf(stat, 5+3*n, 100),
		"proc/70/cgroup":       "4:memory:/job\n3:cpu,cpuacct:/job\n0::/pod/a\n",
		"proc/70/status":       fmt.Sprintf("Name:\ta\nCpus_allowed:\tff,%08x\nCpus_allowed_list:\t0-1\n", 0xff>>(4*n)),
		"proc/71/stat":         "garbage",
		"proc/71/cgroup":       "4:memory:/job\n3:cpu,cpuacct:/\n0::/pod/../../../etc\n",

		"sys/fs/cgroup/memory/job/memory.failcnt":     fmt.Sprintf("%d\n", 9+n),
		"sys/fs/cgroup/cpu,cpuacct/job/cpu.stat":      fmt.Sprintf("nr_periods 4\nnr_throttled %d\nthrottled_time %d\n", 3+n, 500+30_000_000*n),
		"sys/fs/cgroup/cpu,cpuacct/job/cpuacct.usage": fmt.Sprintf("%d\n", 1000+40_000_000*n),
		"sys/fs/cgroup/unified/a/cpu.stat":            fmt.Sprintf("usage_usec %d\nnr_throttled %d\nthrottled_usec %d\n", 10+50_000*n, 1+2*n, 10+60_000*n),
		"sys/fs/cgroup/unified/a/memory.pressure":     psi(10),
		"sys/fs/cgroup/unified/a/memory.events":       fmt.Sprintf("low 0\nhigh 0\nmax %d\noom 0\n", 6+4*n),
		"sys/dev/block/254:0/uevent":                  "MAJOR=254\nMINOR=0\nDEVNAME=vda\nDEVTYPE=disk\n",
	}
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func sum(kind tick.HostEvent, object string, pid uint32, count, bytes, ns uint64) tick.HostSum {
	return tick.HostSum{HostKey: tick.HostKey{Kind: kind, PID: pid, Object: object}, Count: count, Bytes: bytes, NS: ns}
}

// The growth of each counter is reported, for both versions of cgroups.
func TestPoller(t *testing.T) {
	root := testkit.Tree(t, machine(0))
	p := Poller{Root: root, Boot: time.Minute}
	if got := p.Read([]uint32{70, 71}, false); len(got) != 0 {
		t.Errorf("the first reading tells %v", got)
	}
	write(t, root, machine(1))
	const ms = 1_000_000
	want := []tick.HostSum{
		sum(tick.HostMajorFault, "", 70, 3, 0, 0),
		sum(tick.HostSwapIn, "", 0, 1, pageBytes, 0),
		sum(tick.HostSwapOut, "", 0, 2, 2*pageBytes, 0),
		sum(tick.HostThrottled, "/pod/a", 0, 2, 0, 60*ms),
		sum(tick.HostThrottled, "/job", 0, 1, 0, 30*ms),
		sum(tick.HostAtLimit, "/pod/a", 0, 4, 0, 0),
		sum(tick.HostAtLimit, "/job", 0, 1, 0, 0),
		sum(tick.HostCgroupCPU, "/pod/a", 0, 0, 0, 50*ms),
		sum(tick.HostCgroupCPU, "/job", 0, 0, 0, 40*ms),
		sum(tick.HostCPUPressure, "", 0, 0, 0, 20*ms),
		sum(tick.HostMemoryPressure, "", 0, 0, 0, 20*ms),
		sum(tick.HostMemoryPressure, "/pod/a", 0, 0, 0, 20*ms),
		sum(tick.HostMemoryFull, "", 0, 0, 0, 10*ms),
		sum(tick.HostMemoryFull, "/pod/a", 0, 0, 0, 10*ms),
		sum(tick.HostIOPressure, "", 0, 0, 0, 20*ms),
		sum(tick.HostIOFull, "", 0, 0, 0, 10*ms),
		sum(tick.HostCPUsTaken, "", 70, 4, 0, 0),
	}
	if d := diff.Diff(want, p.Read([]uint32{70, 71}, false)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got := p.Read([]uint32{70, 71}, true); len(got) != 0 {
		t.Errorf("nothing has moved, and it tells %v", got)
	}
	if p.Unread() != 0 || len(p.Reports()) != 0 {
		t.Errorf("%d left, reports %v", p.Unread(), p.Reports())
	}
	if a, b := p.Device("254:0"), p.Device("9:9"); a != "vda" || b != "9:9" {
		t.Errorf("devices %q and %q", a, b)
	}
}

// Times too small to report are reported later, at the end at the latest; faults of a process that
// started during the trace count from its start.
func TestPollerKeeps(t *testing.T) {
	files := map[string]string{"proc/self/mountinfo": "", "proc/vmstat": "", "proc/pressure/cpu": "some total=1000\n", "proc/7/stat": ""}
	root := testkit.Tree(t, files)
	p := Poller{Root: root, Boot: time.Minute}
	p.Read(nil, false)
	files["proc/pressure/cpu"], files["proc/7/stat"] = "some total=7000\n", fmt.Sprintf(stat, 4, 6001)
	write(t, root, files)
	if d := diff.Diff([]tick.HostSum{sum(tick.HostMajorFault, "", 7, 4, 0, 0)}, p.Read([]uint32{7}, false)); d != "" {
		t.Errorf("6 ms: -want +got:\n%s", d)
	}
	if d := diff.Diff([]tick.HostSum{sum(tick.HostCPUPressure, "", 0, 0, 0, 6_000_000)}, p.Read([]uint32{7}, true)); d != "" {
		t.Errorf("at the end: -want +got:\n%s", d)
	}
	var lacks []string
	for _, r := range p.Reports() {
		lacks = append(lacks, r.Object)
	}
	if got := strings.Join(lacks, ", "); got != "memory pressure, io pressure" {
		t.Errorf("it reports that it lacks %s", got)
	}
}

// Implausible numbers and sizes are rejected, and excess entries are counted.
func TestPollerHostile(t *testing.T) {
	root := testkit.Tree(t, machine(0))
	p := Poller{Root: root, Boot: time.Minute}
	p.Read([]uint32{70}, false)
	for name, good := range machine(0) {
		for _, text := range []string{"", "\n\n", "some total=99999999999999999999999\n", "pswpin -4\nnr_throttled x\n", strings.Repeat("a", 1<<20),
			strings.Repeat("(", 1<<17), "70 (x) " + strings.Repeat("1 ", 9)} {
			write(t, root, map[string]string{name: text})
			p.groups = map[uint32]*membership{}
			for _, s := range p.Read([]uint32{70}, true) {
				t.Errorf("%s as %.20q: %+v", name, text, s)
			}
		}
		write(t, root, map[string]string{name: good})
	}
	pids := make([]uint32, maxProcesses+5)
	if p.Read(pids, false); p.Unread() != 5 {
		t.Errorf("%d processes were not read, want 5", p.Unread())
	}
}

// Controllers without files to read do not use up the limit of cgroups, in version 1 of cgroups;
// groups over the limit are counted.
func TestManyControllers(t *testing.T) {
	for _, tt := range []struct {
		name      string
		processes int
		want      int  // groups with their quota
		unread    bool // whether groups over the limit are counted
	}{
		{"within the limit", 60, 60, false},
		{"over the limit", maxCgroups + 1, maxCgroups, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			controllers := strings.Fields("cpu cpuset blkio devices freezer net_cls perf_event net_prio hugetlb pids rdma misc name=systemd")
			pids := make([]uint32, tt.processes)
			files := func(n int) map[string]string {
				out := map[string]string{}
				for i := range pids {
					pids[i] = uint32(100 + i)
					var groups strings.Builder
					for _, c := range controllers {
						fmt.Fprintf(&groups, "1:%s:/job-%d\n", c, i)
					}
					out[fmt.Sprintf("proc/%d/cgroup", pids[i])] = groups.String()
					at := fmt.Sprintf("sys/fs/cgroup/cpu/job-%d/", i)
					out[at+"cpu.stat"] = fmt.Sprintf("nr_throttled %d\nthrottled_time %d\n", 1+n, 40_000_000*n)
					out[at+"cpu.cfs_quota_us"], out[at+"cpu.cfs_period_us"] = "50000\n", "100000\n"
				}
				for _, c := range controllers {
					out["proc/self/mountinfo"] += fmt.Sprintf("22 1 0:6 / /sys/fs/cgroup/%s rw - cgroup cgroup rw,%s\n", c, c)
				}
				return out
			}
			root := testkit.Tree(t, files(0))
			p := Poller{Root: root, Boot: time.Minute}
			p.Read(pids, false)
			write(t, root, files(1))
			throttled, limits := 0, 0
			for _, s := range p.Read(pids, false) {
				switch s.Kind {
				case tick.HostThrottled:
					throttled++
				case tick.HostLimit:
					limits++
				}
			}
			if throttled != tt.want || limits != tt.want || (p.Unread() > 0) != tt.unread {
				t.Errorf("%d groups were throttled, %d limits reached, want %d; %d not read", throttled, limits, tt.want, p.Unread())
			}
		})
	}
}
