//go:build measure

package raw

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/govern"
	"ingero/internal/probes"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/tick"
)

var recorded = flag.String("record", "", "scenario to record: a name of the list, or all")

const ms = time.Millisecond

// scenario is a job and its fault.
type scenario struct {
	name, about string
	main        string   // the job's script: see test/incidents/testdata/victim.c
	args        []string // further scripts
	env         string   // environment that says how it waits for the GPU
	python      bool     // the job is the loop in Python
	shell       string   // the job is a shell script; $0 is the simulated stack's training program
	fault       func(r *run) (pids []uint32, end func())
	rules       []string
	own         bool     // the job is its own culprit
	alone       bool     // the job and the fault have priority over all others on its CPU
	quiet       bool     // the job runs on the less busy CPU
	nobody      bool     // the fault's processes must not be named
	without     []string // steps of package govern that are taken
}

const (
	spins  = "INGERO_SIM_SYNC=spin"
	blocks = "INGERO_SIM_SYNC=block"
)

var scenarios = []scenario{
	{name: "healthy", alone: true, about: "a training loop that nothing disturbs", main: "copy 65536; launch 4 400; sync; cpu 3000", env: blocks},
	{name: "hog", alone: true, about: "another process takes the job's CPU", main: "copy 65536; launch 3 600; sync; cpu 4000", env: blocks,
		fault: program("hog CPU"), rules: []string{"cpu-taken"}},
	{name: "quota", about: "the job's control group has used up its CPU time", main: "copy 65536; launch 3 1200; sync; cpu 1500", env: spins, quiet: true,
		fault: quota, rules: []string{"cpu-throttled"}, nobody: true},
	{name: "gil", quiet: true, about: "another thread of the job holds Python's lock", python: true, env: blocks,
		fault: inside, rules: []string{"gil-wait"}, own: true},
	{name: "lock", alone: true, about: "another thread of the job holds a lock", main: "hold 200; copy 65536; launch 3 1000; sync; cpu 1000", env: blocks,
		args: []string{"thread=~sleep 5000; !holdsleep 12000; sleep 2000"}, fault: inside, rules: []string{"lock-wait"}, own: true},
	{name: "disk", alone: true, about: "the job reads past the page cache", main: "~cached 1048576; !read 8388608; copy 65536; launch 3 1000; sync; cpu 1000", env: blocks,
		fault: inside, rules: []string{"disk-wait"}, nobody: true},
	{name: "own", alone: true, about: "the job's own code computes for longer", main: "cpu 300; !cpu 20000; copy 65536; launch 3 1000; sync", env: blocks,
		fault: inside, rules: []string{"own-code"}, own: true},
	{name: "stopped", alone: true, about: "a process stops the job with SIGSTOP", main: "copy 65536; launch 3 1000; sync; cpu 2000", env: blocks,
		fault: program("stopper OTHER PID 80000 300000"), rules: []string{"stopped"}},
	{name: "short", alone: true, about: "processes that come and go, and that nothing disturbs", env: blocks,
		shell: `echo ready; read -r _; for i in 1 2 3 4 5; do "$0" --steps 60 --kernel-us 300 >/dev/null; done`},
	{name: "decoy", alone: true, about: "the machine is busy, and the job is not touched", main: "copy 65536; launch 4 400; sync; cpu 3000", env: blocks,
		fault: program("hog OTHER")},
	shed("stacks", "stacks-rare", "python-off", "stacks-off"),
	shed("records", "records-thin", "records-least"),
	shed("durations", "launches-counted", "calls-counted"),
	shed("all", "stacks-rare", "records-thin", "python-off", "launches-counted", "stacks-off", "records-least", "host-off", "calls-counted", "hot-off"),
}

// shed returns a scenario in which tracing has shed features, so that answers rest on
// less data.
func shed(name string, without ...string) scenario {
	return scenario{name: "shed-" + name, alone: true, about: "a process stops the job with SIGSTOP, and tracing does without " + strings.Join(without, ", "),
		main: "copy 65536; launch 10 300; sync; cpu 2000", env: blocks, fault: program("stopper OTHER PID 80000 300000"), rules: []string{"stopped"}, without: without}
}

// TestRecord records scenarios, and checks that a play gives the live output, and that it is true.
// It needs root and a quiet machine.
func TestRecord(t *testing.T) {
	if *recorded == "" {
		t.Log("nothing to record: see doc.go")
		return
	}
	done := recordReal(t)
	var l *lab
	for i := range scenarios {
		if s := &scenarios[i]; *recorded == "all" || *recorded == s.name {
			if done = true; l == nil {
				l = newLab(t)
			}
			t.Run(s.name, func(t *testing.T) { record(t, l, s) })
		}
	}
	if !done {
		t.Fatalf("no scenario %s", *recorded)
	}
}

func record(t *testing.T, l *lab, s *scenario) {
	r := l.start(t, s)
	var out bytes.Buffer
	var forced []int
	var bound float64 // without a limit nothing is shed
	for _, name := range s.without {
		forced, bound = append(forced, govern.StepNamed(name)), 1
	}
	x, w := live(t, &out, uint32(r.child.PID()), bound, forced, func() truth {
		r.child.Send("go")
		return r.through()
	})
	keep(t, s.name, out.Bytes(), &reported{Truth: x, Ticks: normal(t, w.ticks)}, w)
}

// live traces a process while through runs, and writes its tape.
func live(t *testing.T, out io.Writer, pid uint32, bound float64, forced []int, through func() truth) (truth, *watch) {
	t.Helper()
	source, err := session.OpenLive(context.Background(), session.LiveOptions{Select: proc.Selector{PIDs: []uint32{pid}},
		MaxOverhead: bound, Probes: probes.Options{Stacks: probes.StacksSlow}, RawTape: &session.RawTape{To: out, Clean: clean}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatch()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- session.Run(ctx, session.Config{Source: source, Sinks: []tick.Sink{w}, Forced: forced})
	}()
	x := through()
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return x, w
}

// keep keeps a tape if a play gives the live output, and the output is true.
func keep(t *testing.T, name string, b []byte, x *reported, w *watch) {
	t.Helper()
	t.Logf("%d bytes; truly lost: %v to %v", len(b), x.Truth.LostMin, x.Truth.LostMax)
	for i := range w.ticks {
		for _, c := range w.ticks[i].Chains {
			t.Logf("tick %d: %s %v to %v %+v", w.ticks[i].Seq, c.Rule, c.LostMin, c.LostMax, c.Culprits)
		}
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".tape"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(x.Ticks, normal(t, play(t, b))); diff != "" {
		t.Fatalf("the play differs (-live +play):\n%s", diff)
	}
	if wrong := judge(&x.Truth, x.Ticks); len(wrong) > 0 {
		t.Fatalf("not the truth, and not kept:\n%s", strings.Join(wrong, "\n"))
	}
	writeReported(t, name, x)
	if err := os.WriteFile(filepath.Join("testdata", name+".tape"), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// program returns a fault that runs the faults program.
func program(what string) func(r *run) ([]uint32, func()) {
	return func(r *run) ([]uint32, func()) {
		c := r.lab.faults(r, what)
		if r.alone {
			first(r.t, c.PID())
		}
		return []uint32{uint32(c.PID())}, func() {
			c.Signal(9)
			_ = c.Wait()
		}
	}
}

// inside is a fault of the job itself.
func inside(r *run) ([]uint32, func()) {
	r.clock.fault(true)
	return nil, func() { r.clock.fault(false) }
}

// quota gives the job a third of a CPU.
func quota(r *run) ([]uint32, func()) {
	set := func(text string) {
		file := filepath.Join(r.group, "cpu.cfs_quota_us")
		if _, err := os.Stat(file); err != nil { // version 2 of cgroups
			file, text = filepath.Join(r.group, "cpu.max"), strings.Replace(text, "-1", "max", 1)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			r.t.Error(err)
		}
	}
	set(fmt.Sprint(35_000))
	return nil, func() { set("-1") }
}
