//go:build measure || smoke

package incidents

import (
	"encoding/binary"
	"math"
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
)

// Layout of the file that a victim and the lab share: see struct step_log in testdata/victim.h.
const (
	logCount   = 8
	logPIDs    = 16
	logMaxPIDs = 14
	logSteps   = 128
	logStep    = 24
	logMax     = 1 << 17
	logSize    = logSteps + logMax*logStep
)

// turn is the time slice of a run's processes.
const turn = time.Millisecond

// clock is a victim's own clock, in memory that it shares with the lab.
type clock struct{ mem []byte }

// step is one step by the victim's clock.
type step struct {
	Begin, End int64 // Unix ns
	Kind       uint64
}

// newClock creates the victim's clock and its file, in memory, so that no disk delays it.
func newClock(t testing.TB) (c clock, path string) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ingero-lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "steps")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(logSize); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, logSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return clock{mem}, path
}

// word returns a number in the file.
func (c clock) word(at int) uint64 { return binary.LittleEndian.Uint64(c.mem[at:]) }

// fault switches the victim's own fault.
func (c clock) fault(on bool) {
	var mode uint64
	if on {
		mode = 1
	}
	binary.LittleEndian.PutUint64(c.mem, mode)
}

// count returns the number of steps so far.
func (c clock) count() int { return int(min(c.word(logCount), logMax)) }

// pids returns the victim's processes.
func (c clock) pids() []int {
	var out []int
	for i := range logMaxPIDs {
		if pid := c.word(logPIDs + 8*i); pid != 0 {
			out = append(out, int(pid))
		}
	}
	return out
}

// steps returns all steps so far.
func (c clock) steps() []step {
	out := make([]step, c.count())
	for i := range out {
		at := logSteps + i*logStep
		out[i] = step{int64(c.word(at)), int64(c.word(at + 8)), c.word(at + 16)}
	}
	return out
}

// start starts the victim, which makes no step before it reads the line "go".
func (r *run) start() {
	r.t.Helper()
	v := &r.plan.victim
	r.clock, r.log = newClock(r.t)
	if v.server != nil {
		r.startServer()
		return
	}
	if v.prepare != nil {
		v.prepare(r)
	}
	var args []string
	if v.program != nil {
		args = v.program(r)
	} else {
		args = []string{filepath.Join(r.lab.dir, "victim"), "log=" + r.log, "dir=" + r.dir, "main=" + r.place(thinned(v.main))}
		for _, s := range v.threads {
			args = append(args, "thread="+r.place(thinned(s)))
		}
		for _, s := range v.workers {
			args = append(args, "worker="+r.place(thinned(s)))
		}
		if v.depth > 0 {
			args = append(args, "depth="+strconv.Itoa(v.depth))
		}
		if !v.roams {
			args = append(args, "pin="+strconv.Itoa(r.cpu))
		}
		args = append(args, r.args...)
		args = append(args, v.args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = slices.Concat(os.Environ(), v.env, r.env)
	r.child = testkit.Start(r.t, cmd)
	r.prefer(r.group, r.child.PID())
	r.child.Line("ready")
	r.pids = []int{r.child.PID()}
	if r.memory != "" {
		r.join(r.memory, r.child.PID())
	}
}

// prefer moves a process into a cgroup of the run, before it starts threads. Its time slices become a
// little shorter than others', so that it does not wait for their end when it wakes (from Linux 6.12
// on). Faults have the same slices.
func (r *run) prefer(g group, pid int) {
	r.t.Helper()
	r.join(g, pid)
	if err := unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Runtime: uint64(turn)}, 0); err != nil {
		r.t.Fatal(err)
	}
}

// place replaces the words for CPUs: CPU is the victim's, OTHER the other one.
func (r *run) place(text string) string {
	return strings.NewReplacer("CPU", strconv.Itoa(r.cpu), "OTHER", strconv.Itoa(1-r.cpu)).Replace(text)
}

// lengths returns the lengths of the selected steps, by kind.
func (r *run) lengths(steps []step, in func(s *step) bool) map[uint64][]time.Duration {
	out := map[uint64][]time.Duration{}
	for i := 1; i < len(steps); i++ {
		if in(&steps[i]) {
			out[steps[i].Kind] = append(out[steps[i].Kind], r.length(steps, i))
		}
	}
	return out
}

// length returns the length of step i.
func (r *run) length(steps []step, i int) time.Duration {
	if r.plan.victim.service {
		return time.Duration(steps[i].End - steps[i].Begin)
	}
	return time.Duration(steps[i].End - steps[i-1].End)
}

// warmUp is the number of first steps that are excluded.
const warmUp = 5

// usualStep is the mean length of unaffected steps of a kind, and its error, in ns.
type usualStep struct{ mean, unsure float64 }

// normal returns the length of steps without a fault, by kind: the mean without the longest and
// shortest tenth. The error is at least half the difference between the steps before the first
// fault and those after it.
func (r *run) normal(steps []step) map[uint64]usualStep {
	out := map[uint64]usualStep{}
	free := steps[min(warmUp, len(steps)):]
	first := r.until
	for _, w := range r.times {
		first = min(first, w.From)
	}
	untouched := func(s *step) bool { return !r.touched(s, 100*ms) }
	before := r.lengths(free, func(s *step) bool { return untouched(s) && s.End <= first })
	after := r.lengths(free, func(s *step) bool { return untouched(s) && s.End > first })
	for kind, all := range r.lengths(free, untouched) {
		mean, unsure := trimmed(all)
		if len(before[kind]) >= warmUp && len(after[kind]) >= warmUp {
			a, _ := trimmed(before[kind])
			b, _ := trimmed(after[kind])
			unsure = max(unsure, math.Abs(a-b)/2)
		}
		out[kind] = usualStep{mean, unsure}
	}
	return out
}

// trimmed returns the mean without the longest and the shortest tenth, and its standard error.
func trimmed(all []time.Duration) (mean, unsure float64) {
	slices.Sort(all)
	all = all[len(all)/10 : len(all)-len(all)/10]
	var sum, squares float64
	for _, d := range all {
		sum += float64(d)
		squares += float64(d) * float64(d)
	}
	n := float64(len(all))
	mean = sum / n
	return mean, math.Sqrt(max(squares/n-mean*mean, 0) / n)
}

// touched reports whether a fault was active during a step, or until shortly before.
func (r *run) touched(s *step, after time.Duration) bool { return touches(r.times, s, after) }

func touches(times []window, s *step, after time.Duration) bool {
	return slices.ContainsFunc(times, func(w window) bool { return s.End > w.From && s.Begin < w.To+int64(after) })
}

// excess returns how much longer the steps during the faults took than others, and the end of the
// first longer step.
func (r *run) excess(faults ...window) (l lost, first int64) {
	if r.server != nil {
		return r.delayedRequests()
	}
	normal := r.normal(r.steps)
	var sum, unsure float64
	for i := 1; i < len(r.steps); i++ {
		s := &r.steps[i]
		if s.End > r.until || s.Begin < r.since || !touches(faults, s, 0) {
			continue
		}
		base, ok := normal[s.Kind]
		if !ok {
			r.t.Fatalf("no step of kind %#x is without a fault", s.Kind)
		}
		took := float64(r.length(r.steps, i))
		if first == 0 && took > 1.2*base.mean {
			first = s.End
		}
		sum += took - base.mean
		unsure += base.unsure
	}
	// Other influences vary normal steps as well: by 2 % of their length.
	slack := 2*unsure + 0.02*sum + float64(5*ms)
	return lost{Min: time.Duration(max(sum-slack, 0)), Mid: time.Duration(max(sum, 0)), Max: time.Duration(max(sum+slack, 0))}, first
}

// within returns the loss during one of several successive faults.
func within(fault int) func(*run) lost {
	return func(r *run) lost {
		l, _ := r.excess(r.times[fault])
		return l
	}
}

// throttled returns the time for which the victim's quota was used up. Part of it may have cost
// nothing.
func throttled(r *run) lost {
	d := time.Duration(r.group.number("cpu.stat", "throttled_time"))
	return lost{Min: d / 2, Mid: d, Max: d * 11 / 10}
}

// delayed returns the time for which the victim was runnable during a fault.
func delayed(fault int) func(*run) lost {
	return func(r *run) lost {
		d := r.delays[fault]
		return lost{Min: d * 8 / 10, Mid: d, Max: d * 11 / 10}
	}
}

// beside returns the whole loss without another concurrent one.
func beside(other func(*run) lost) func(*run) lost {
	return func(r *run) lost {
		all, _ := r.excess(r.times...)
		o := other(r)
		return lost{Min: max(all.Min-o.Max, 0), Mid: max(all.Mid-o.Mid, 0), Max: max(all.Max-o.Min, 0)}
	}
}
