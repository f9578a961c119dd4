package ledgerexact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// build compiles the programs of test/ledger into a directory.
func build(t testing.TB) (dir string) {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir = t.TempDir()
	src := func(name string) string { return filepath.Join("..", "ledger", "testdata", name) }
	out := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", out("libcudart.so.12"), src("cudart.c")},
		{"-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", out("libcuda.so.1"), src("cuda.c")},
		{"-o", out("truth"), src("truth.c"), src("bodies.c"), "-L" + dir, "-l:libcudart.so.12", "-l:libcuda.so.1",
			"-Wl,-rpath," + dir, "-pthread"},
		{"-o", out("hog"), src("hog.c")},
	} {
		if text, err := exec.Command("gcc", append([]string{"-Wall", "-O1"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, text)
		}
	}
	return dir
}

// twoCPUs returns the CPU of the traced thread and that of its helper.
func twoCPUs(t testing.TB) (victim, helper int) {
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

// workload is one run of the program.
type workload struct {
	name     string // of the test
	scenario string
	count    int
	us       int      // length of a call; 0: the scenario decides
	hogs     []string // what competing processes do; "CPU" and "OTHER" stand for where
	meddle   string   // likewise; "TID" stands for the thread
	quota    bool     // the thread may have 2 ms of CPU time in each 100 ms
	files    bool     // the program reads files of a disk
	inner    int      // traced calls inside each call
	check    func(t *testing.T, r *run)
}

// run is a workload and what the program and the session said about it.
type run struct {
	*workload
	pid, helper uint32
	cpu, other  int
	hogPIDs     []uint32
	child       *testkit.Child
	disturbers  []*testkit.Child
	truths      []truth // by call, inner calls too, in the order in which they begin
	stolen      int64   // ns, from all CPUs of the machine during the run
	*record
}

// record is a sink that keeps everything.
type record struct {
	mu    sync.Mutex
	calls []events.Call
	waits []events.Wait
	ticks []tick.Tick
}

func (r *record) Batch(b *tick.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, b.Calls...)
	r.waits = append(r.waits, b.Waits...)
	return nil
}

func (r *record) Tick(t *tick.Tick) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks = append(r.ticks, *t)
	return nil
}

func (r *record) Close() error { return nil }

// thread returns the newest account of a thread.
func (r *record) thread(tid uint32) (found tick.Thread, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.ticks {
		for _, th := range t.Threads {
			if th.TID == tid {
				found, ok = th, true
			}
		}
	}
	return found, ok
}

// watch traces processes until they have ended. The returned function waits for that.
func watch(t testing.TB, r *record, pids ...uint32) (wait func()) {
	t.Helper()
	var rows []events.Row
	for _, name := range []string{"cudaStreamSynchronize", "cuStreamSynchronize"} {
		op, ok := events.OpByName(name)
		if !ok {
			t.Fatalf("no operation %s", name)
		}
		rows = append(rows, *op.Row())
	}
	live, err := session.OpenLive(t.Context(), session.LiveOptions{
		Select: proc.Selector{PIDs: pids}, Raw: true, Probes: probes.Options{Rows: rows}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	go func() {
		ended <- session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{r}, Interval: 100 * time.Millisecond})
	}()
	return func() {
		t.Helper()
		if err := testkit.Receive(t, "the session's end", ended); err != nil {
			t.Fatal(err)
		}
	}
}

// start begins the program and its competitors. They wait for a line.
func (w *workload) start(t testing.TB, dir string) *run {
	t.Helper()
	r := &run{workload: w, record: &record{}}
	r.cpu, r.other = twoCPUs(t)
	args := []string{w.scenario, fmt.Sprintf("calls=%d", w.count), fmt.Sprintf("us=%d", w.us),
		fmt.Sprintf("cpu=%d", r.cpu), fmt.Sprintf("helper=%d", r.other)}
	if w.files {
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
		r.hogPIDs = append(r.hogPIDs, pid)
		args = append(args, fmt.Sprintf("hog=%d", pid))
	}
	limit := func(int) {}
	if w.quota {
		var stat string
		stat, limit = quota(t)
		args = append(args, "stat="+stat)
	}
	r.child = testkit.Start(t, exec.Command(filepath.Join(dir, "truth"), args...))
	if _, err := fmt.Sscanf(r.child.Line("ready "), "ready %d %d", &r.pid, &r.helper); err != nil {
		t.Fatal(err)
	}
	limit(int(r.pid))
	if w.meddle != "" {
		r.disturb(t, dir, strings.ReplaceAll(w.meddle, "TID", fmt.Sprint(r.pid)))
	}
	return r
}

// disturb starts the hog program and returns its PID.
func (r *run) disturb(t testing.TB, dir, what string) uint32 {
	t.Helper()
	what = strings.NewReplacer("CPU", fmt.Sprint(r.cpu), "OTHER", fmt.Sprint(r.other)).Replace(what)
	hog := testkit.Start(t, exec.Command(filepath.Join(dir, "hog"), strings.Fields(what)...))
	testkit.NeedKernel(t, "real-time priorities in this cgroup", hog.Line("re") == "ready")
	r.disturbers = append(r.disturbers, hog)
	return uint32(hog.PID())
}

// play has the program make its calls.
func (r *run) play(t testing.TB) {
	t.Helper()
	stolen := testkit.Stolen(t)
	for _, d := range r.disturbers {
		d.Say("go")
	}
	r.child.Say("go")
	if err := r.child.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, d := range r.disturbers {
		d.Signal(syscall.SIGKILL)
		_ = d.Wait()
	}
	r.stolen = int64(testkit.Stolen(t) - stolen)
	if err := r.read(r.child.Stdout()); err != nil {
		t.Fatal(err)
	}
}

// quota makes a cgroup that may have 2 ms of CPU time in each 100 ms, in version 1 or 2 of
// the CPU controller. It returns the path of the group's account.
func quota(t testing.TB) (stat string, add func(pid int)) {
	t.Helper()
	path, add := testkit.Cgroup(t)
	err := errors.New("no CPU controller")
	for root, files := range map[string][][2]string{
		"/sys/fs/cgroup/cpu": {{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", "2000"}},
		"/sys/fs/cgroup":     {{"cpu.max", "2000 100000"}},
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
