package incidents

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/sim"
)

var seconds = flag.Int("seconds", 8, "length of each run")

// CPUs of the lab: the victim's, and another.
const (
	victimCPU = 1
	otherCPU  = 0
)

// lab is what a scenario is made with.
type lab struct {
	t      *testing.T
	stack  sim.Stack
	faults string // the program
}

func newLab(t *testing.T) *lab {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	dir := t.TempDir()
	stack, err := sim.Extract(filepath.Join(dir, "sim"))
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, stack: stack, faults: filepath.Join(dir, "faults")}
	out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-o", l.faults, "testdata/faults.c", stack.Libcudart,
		"-Wl,-rpath,"+stack.Dir, "-Wl,--allow-shlib-undefined").CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return l
}

// workload is a victim. It runs on victimCPU, for longer than it is traced.
type workload struct {
	name string
	args []string // of a program of sim; empty: of faults
	env  string
	deep bool
}

var healthy = []workload{
	{name: "synchronise that spins", args: []string{"train", "--kernel-us", "500"}, env: "INGERO_SIM_SYNC=spin"},
	{name: "synchronise that blocks", args: []string{"train", "--kernel-us", "500"}, env: "INGERO_SIM_SYNC=block"},
	{name: "paced loop", args: []string{"infer", "--rate", "50", "--kernel-us", "300"}, env: "INGERO_SIM_SYNC=block"},
	{name: "deep queue, a hog while it fills", deep: true},
}

// start starts the victim; it makes no step before begin.
func (l *lab) start(w workload) (victim *testkit.Child, begin func()) {
	l.t.Helper()
	life := strconv.Itoa(*seconds + 60)
	var cmd *exec.Cmd
	if w.deep {
		cmd = exec.Command(l.faults, "deep", strconv.Itoa(victimCPU), life)
	} else {
		args := append(w.args[1:len(w.args):len(w.args)], "--seconds", life, "--pin", strconv.Itoa(victimCPU), "--hold")
		cmd = exec.Command(l.stack.Program(w.args[0]), args...)
	}
	if w.env != "" {
		cmd.Env = append(os.Environ(), w.env)
	}
	victim = testkit.Start(l.t, cmd)
	victim.Line("ready")
	return victim, func() { victim.Say("go") }
}

// hog starts one on a CPU; it runs when this returns.
func (l *lab) hog(cpu int) *testkit.Child {
	l.t.Helper()
	h := testkit.Start(l.t, exec.Command(l.faults, "hog", strconv.Itoa(cpu)))
	h.Line("ready")
	return h
}

// keep is a sink that calls at after the ticks from some time on.
type keep struct {
	last tick.Tick
	at   time.Duration // since the session began
	then func()
}

func (k *keep) Batch(*tick.Batch) error { return nil }
func (k *keep) Close() error            { return nil }
func (k *keep) Tick(t *tick.Tick) error {
	k.last = *t
	if k.then != nil && t.Time.Sub(t.Started) >= k.at {
		k.then()
		k.then = nil
	}
	return nil
}

// observe traces the victim for the length of a run, and returns the last tick.
// begin is called once it is traced; then, if there is one, at half time.
func (l *lab) observe(victim *testkit.Child, begin, then func()) tick.Tick {
	l.t.Helper()
	live, err := session.OpenLive(context.Background(), session.LiveOptions{
		Select: proc.Selector{PIDs: []uint32{uint32(victim.PID())}}})
	if err != nil {
		l.t.Fatal(err)
	}
	length := time.Duration(*seconds) * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	begin()
	k := &keep{at: length / 2, then: then}
	if err := session.Run(ctx, session.Config{Source: live, Sinks: []tick.Sink{k}}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		l.t.Fatal(err)
	}
	return k.last
}

// chainsOf are those of the victim, one line each.
func (l *lab) report(t *tick.Tick) {
	l.t.Helper()
	for i := range t.Chains {
		c := &t.Chains[i]
		l.t.Logf("%s %s: lost %v (%v to %v) of %v, %d of %d steps, confidence %.2f", c.Severity, c.Rule, c.Lost, c.LostMin, c.LostMax,
			c.Window, c.Slow, c.Steps, c.Confidence)
		for _, x := range c.Culprits {
			l.t.Logf("  %s (%d) %s: %v", x.Thread.Name, x.Thread.PID, x.What, x.Lost)
		}
	}
	for i := range t.Breakdowns {
		b := &t.Breakdowns[i]
		l.t.Logf("%d: %v = GPU wait %v, CPU in calls %v, between %v, runnable %v, throttled %v, blocked %v; %d steps of %v (p99 %v)", b.PID,
			ns(b.Elapsed), ns(b.GPUWait), ns(b.CallCPU), ns(b.GapCPU), ns(b.Runnable), ns(b.Throttled), ns(b.Blocked), b.Steps, b.StepP50, b.StepP99)
	}
}

func ns(n uint64) time.Duration { return time.Duration(n) }
