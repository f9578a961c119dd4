package ledger

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

const ms = time.Millisecond

// workload is one run of the program in testdata.
type workload struct {
	name     string // name of the test
	scenario string // name in testdata/bodies.c
	count    int
	each     time.Duration // length of a call; 0: the scenario decides
	roam     bool          // the thread may use any CPU; otherwise it keeps to one, and its helper to another
	onDisk   bool          // the program reads or writes files on a disk
	quota    quota
	hogs     []string // commands of competing processes; "CPU", "OTHER" and "ANY" stand for their CPUs
	meddle   string   // another command; "TID" stands for the thread
	check    func(t testing.TB, r *run)
}

// quota is a limit on CPU time. The zero value is none.
type quota struct{ limit, period time.Duration }

// run is a workload with the reports of the program and the session.
type run struct {
	*workload
	*record
	how          tracing
	pid, helper  uint32          // the thread that calls; the thread that wakes or stops it
	cpu, other   int             // their CPUs
	culprits     []events.Thread // threads that compete for the CPU, in the order of reading.hog
	truths, gaps []truth         // for each call, and for the time before each outermost call
	stolen       time.Duration   // stolen by the hypervisor from all CPUs during the run
	shared       bool            // the hypervisor has stolen time since the machine was started
	child        *testkit.Child
	disturbers   []*testkit.Child
}

// build compiles the programs into a directory.
func build(t testing.TB) (dir string) {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir = t.TempDir()
	src := func(name string) string { return filepath.Join("testdata", name) }
	out := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", out("libcudart.so.12"), src("cudart.c")},
		{"-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", out("libcuda.so.1"), src("cuda.c")},
		{"-o", out("truth"), src("truth.c"), src("bodies.c"), "-L" + dir, "-l:libcudart.so.12", "-l:libcuda.so.1",
			"-Wl,-rpath,$ORIGIN", "-pthread"},
		{"-o", out("hog"), src("hog.c"), "-pthread"},
	} {
		if text, err := exec.Command("gcc", append([]string{"-Wall", "-O1"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, text)
		}
	}
	return dir
}

// twoCPUs returns the CPU of the traced thread and that of its helper. The helper gets the first
// CPU, which tends to serve the interrupts.
func twoCPUs(t testing.TB) (thread, helper int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	testkit.NeedKernel(t, "two CPUs for this process", set.Count() >= 2)
	var cpus []int
	for i := 0; len(cpus) < set.Count(); i++ {
		if set.IsSet(i) {
			cpus = append(cpus, i)
		}
	}
	return cpus[len(cpus)-1], cpus[0]
}

// start starts the program and its competitors, which wait for a line.
func (w *workload) start(t testing.TB, dir string, how tracing) *run {
	t.Helper()
	r := &run{workload: w, how: how}
	r.cpu, r.other = twoCPUs(t)
	args := []string{w.scenario, fmt.Sprintf("calls=%d", w.count), fmt.Sprintf("us=%d", w.each.Microseconds())}
	if !w.roam {
		args = append(args, fmt.Sprintf("cpu=%d", r.cpu), fmt.Sprintf("helper=%d", r.other))
	}
	if w.onDisk {
		files := t.TempDir()
		var st unix.Statfs_t
		if err := unix.Statfs(files, &st); err != nil {
			t.Fatal(err)
		}
		testkit.NeedKernel(t, "temporary files on a disk", st.Type != unix.TMPFS_MAGIC)
		args = append(args, "dir="+files)
	}
	for _, what := range w.hogs {
		pid := r.disturb(t, dir, what)
		r.culprits = append(r.culprits, events.Thread{PID: pid, TID: pid, Parent: uint32(os.Getpid()), Name: events.NameOf("hog")})
		args = append(args, fmt.Sprintf("hog=%d", pid))
	}
	add := func(int) {}
	if w.quota != (quota{}) {
		var stat string
		stat, add = w.quota.cgroup(t)
		args = append(args, "stat="+stat)
	}
	cmd := exec.Command(filepath.Join(dir, "truth"), args...)
	if how.witness != nil {
		cmd.Args = append(cmd.Args, "witness=3")
		cmd.ExtraFiles = []*os.File{how.witness}
	}
	r.child = testkit.Start(t, cmd)
	if _, err := fmt.Sscanf(r.child.Line("ready "), "ready %d %d", &r.pid, &r.helper); err != nil {
		t.Fatal(err)
	}
	add(int(r.pid))
	if w.meddle != "" {
		r.disturb(t, dir, strings.ReplaceAll(w.meddle, "TID", fmt.Sprint(r.pid)))
	}
	return r
}

// disturb starts the hog program and returns its PID.
func (r *run) disturb(t testing.TB, dir, what string) uint32 {
	t.Helper()
	what = strings.NewReplacer("CPU", fmt.Sprint(r.cpu), "OTHER", fmt.Sprint(r.other), "ANY", "-1").Replace(what)
	hog := testkit.Start(t, exec.Command(filepath.Join(dir, "hog"), strings.Fields(what)...))
	testkit.NeedKernel(t, "real-time priorities in this cgroup", hog.Line("re") == "ready")
	r.disturbers = append(r.disturbers, hog)
	return uint32(hog.PID())
}

// play lets the program make its calls, and reads its output.
func (r *run) play(t testing.TB) {
	t.Helper()
	stolen := testkit.Stolen(t)
	for _, d := range r.disturbers {
		d.Send("go")
	}
	r.child.Send("go")
	if err := r.child.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, d := range r.disturbers {
		d.Signal(syscall.SIGKILL)
		_ = d.Wait()
	}
	all := testkit.Stolen(t)
	r.stolen, r.shared = all-stolen, all > 0
	if err := r.read(r.child.Stdout()); err != nil {
		t.Fatal(err)
	}
}

// cgroup creates a cgroup with the quota, in version 1 or 2 of the CPU controller. It returns the
// path of the cgroup's account.
func (q quota) cgroup(t testing.TB) (stat string, add func(pid int)) {
	t.Helper()
	path, add := testkit.Cgroup(t)
	limit, period := fmt.Sprint(q.limit.Microseconds()), fmt.Sprint(q.period.Microseconds())
	err := errors.New("no CPU controller")
	for root, files := range map[string][][2]string{
		"/sys/fs/cgroup/cpu": {{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", limit}},
		"/sys/fs/cgroup":     {{"cpu.max", limit + " " + period}},
	} {
		if _, missing := os.Stat(filepath.Join(root, path, files[0][0])); missing != nil {
			continue
		}
		stat = filepath.Join(root, path, "cpu.stat")
		for _, f := range files {
			err = os.WriteFile(filepath.Join(root, path, f[0]), []byte(f[1]), 0o644)
		}
	}
	testkit.NeedKernel(t, fmt.Sprintf("CPU quotas of cgroups (%v)", err), err == nil)
	return stat, add
}
