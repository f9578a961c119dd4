//go:build measure

package raw

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/sim"
)

// lab has the programs of scenarios: those of test/incidents.
type lab struct {
	dir   string
	stack sim.Stack
}

const sources = "../../incidents/testdata"

func newLab(t *testing.T) *lab {
	t.Helper()
	testkit.NeedBPF(t)
	l := &lab{dir: t.TempDir()}
	var err error
	if l.stack, err = sim.Extract(filepath.Join(l.dir, "sim")); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"victim*.c": {"-o", filepath.Join(l.dir, "victim"), l.stack.Libcudart, "-Wl,-rpath," + l.stack.Dir, "-Wl,--allow-shlib-undefined", "-lpthread"},
		"faults*.c": {"-o", filepath.Join(l.dir, "faults"), "-lpthread"},
	} {
		files, err := filepath.Glob(filepath.Join(sources, name))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("gcc", slices.Concat([]string{"-O1"}, files, args)...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	testkit.First(t)
	return l
}

// run is a scenario in progress.
type run struct {
	*scenario
	t     *testing.T
	lab   *lab
	cpu   int
	dir   string
	child *testkit.Child
	group string // directory of the job's cgroup
	clock clock
}

func (l *lab) start(t *testing.T, s *scenario) *run {
	t.Helper()
	r := &run{scenario: s, t: t, lab: l, cpu: 1, dir: t.TempDir(), clock: newClock(t)}
	if s.quiet {
		r.cpu = idlest(t)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "data"), make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{filepath.Join(l.dir, "victim"), "log=" + r.clock.path, "dir=" + r.dir, "pin=" + strconv.Itoa(r.cpu), "main=" + s.main}
	args = append(args, s.args...)
	if s.python {
		args = []string{"python3", filepath.Join(sources, "victim.py"), "--sim", l.stack.Dir, "--cpu", strconv.Itoa(r.cpu), "--log", r.clock.path, "--work", "20000"}
	}
	if s.shell != "" {
		args = []string{"taskset", "-c", strconv.Itoa(r.cpu), "sh", "-c", s.shell, l.stack.Program("train")}
	}
	_, add := testkit.Cgroup(t, "victim")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), s.env)
	r.child = testkit.Start(t, cmd)
	add(r.child.PID())
	r.group = testkit.CgroupOf(t, r.child.PID())
	testkit.SetMaxWeight(t, filepath.Dir(r.group))
	r.child.Line("ready")
	if s.alone {
		r.first()
	}
	return r
}

// idlest returns the CPU that was idle longest during a second.
func idlest(t *testing.T) (cpu int) {
	t.Helper()
	idle := func() (all []int64) {
		text, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[0], "cpu") && f[0] != "cpu" {
				n, _ := strconv.ParseInt(f[4], 10, 64)
				all = append(all, n)
			}
		}
		return all
	}
	before := idle()
	wait(time.Second)
	after := idle()
	for i := range after {
		if after[i]-before[i] > after[cpu]-before[cpu] {
			cpu = i
		}
	}
	return min(cpu, 1)
}

// first gives the job's threads, and the threads that they start, priority over all others on their
// CPU: the machine may be busy.
func (r *run) first() {
	r.t.Helper()
	for _, dir := range []string{filepath.Dir(r.group), r.group} { // version 1 cgroups divide the time at both
		err := os.WriteFile(filepath.Join(dir, "cpu.rt_runtime_us"), []byte("900000"), 0o644)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.t.Fatal(err)
		}
	}
	first(r.t, r.child.PID())
}

func first(t *testing.T, pid int) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if err := unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// faults starts the faults program.
func (l *lab) faults(r *run, what string) *testkit.Child {
	r.t.Helper()
	what = strings.NewReplacer("CPU", strconv.Itoa(r.cpu), "OTHER", strconv.Itoa(1-r.cpu), "PID", strconv.Itoa(r.child.PID())).Replace(what)
	waiting := []string{"-c", `read -r _ && exec "$0" "$@"`, filepath.Join(l.dir, "faults")}
	c := testkit.Start(r.t, exec.Command("sh", append(waiting, strings.Fields(what)...)...))
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.group), "cgroup.procs"), fmt.Append(nil, c.PID()), 0o644); err != nil {
		r.t.Fatal(err)
	}
	c.Send("go")
	c.Line("ready")
	return c
}

const (
	begins = 2000 * ms // when the fault begins
	lasts  = 2000 * ms
	length = 5400 * ms
)

// through runs the scenario, and returns its truth.
func (r *run) through() truth {
	x := truth{About: r.about, Rules: r.rules, Own: r.own}
	wait(begins)
	if r.fault != nil {
		x.From = time.Now().UTC()
		pids, end := r.fault(r)
		wait(lasts)
		end()
		if x.To = time.Now().UTC(); !r.nobody && len(r.rules) > 0 {
			x.Culprits = pids
		}
		wait(length - begins - lasts)
	} else {
		wait(length - begins)
	}
	if len(r.rules) > 0 {
		x.LostMin, x.LostMax = r.clock.lost(x.From, x.To)
	}
	return x
}

func wait(d time.Duration) { <-time.After(d) }

// clock is the job's own clock, in memory that the job writes: struct step_log of
// test/incidents/testdata/victim.h.
type clock struct {
	mem  []byte
	path string
}

const (
	logCount = 8
	logSteps = 128
	logStep  = 24
	logMax   = 1 << 17
)

func newClock(t *testing.T) clock {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ingero-raw-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := clock{path: filepath.Join(dir, "steps")}
	f, err := os.Create(c.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = logSteps + logMax*logStep
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if c.mem, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(c.mem) })
	return c
}

func (c clock) word(at int) uint64 { return binary.LittleEndian.Uint64(c.mem[at:]) }

// fault switches the job's own fault.
func (c clock) fault(on bool) {
	var mode uint64
	if on {
		mode = 1
	}
	binary.LittleEndian.PutUint64(c.mem, mode)
}

// lost returns how much longer the steps in a time range took than the others, by the ends of
// steps. Normal steps are the middle half of those without a fault.
func (c clock) lost(from, to time.Time) (least, most time.Duration) {
	var normal, touched []int64
	for i := 1 + 5; i < int(min(c.word(logCount), logMax)); i++ { // skips the warm-up
		begin, end := int64(c.word(logSteps+(i-1)*logStep+8)), int64(c.word(logSteps+i*logStep+8))
		if end > from.UnixNano() && begin < to.UnixNano() {
			touched = append(touched, end-begin)
		} else if begin > to.Add(100*ms).UnixNano() || end < from.UnixNano() {
			normal = append(normal, end-begin)
		}
	}
	slices.Sort(normal)
	normal = normal[len(normal)/4 : len(normal)-len(normal)/4]
	var usual, sum int64
	for _, n := range normal {
		usual += n
	}
	usual /= int64(max(len(normal), 1))
	for _, n := range touched {
		sum += n - usual
	}
	spread := int64(len(touched))*(normal[len(normal)-1]-normal[0])/2 + sum/10 + int64(10*ms)
	return time.Duration(max(sum-spread, 0)), time.Duration(max(sum+spread, 0))
}
