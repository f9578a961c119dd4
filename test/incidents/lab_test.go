//go:build measure || smoke

package incidents

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/config"
	"ingero/internal/testkit"
	"ingero/sim"
)

// lab is what scenarios are made with.
type lab struct {
	*queue
	overhead float64 // that tracing may cost, of the time of the traced processes; 0: there is no bound
	forced   []int   // steps of govern.Steps that are taken whatever it costs
	dir      string  // of its programs
	stack    sim.Stack
}

// byDefault is what ingero trace may cost.
func byDefault(t *testing.T) float64 {
	t.Helper()
	c, err := config.Load(config.Inputs{SystemFile: filepath.Join(t.TempDir(), "none.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	return c.Trace.MaxOverhead
}

func newLab(t *testing.T, overhead float64) *lab {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	l := &lab{queue: newQueue(), overhead: overhead, dir: t.TempDir()}
	var err error
	if l.stack, err = sim.Extract(filepath.Join(l.dir, "sim")); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"victim*.c": {"-o", filepath.Join(l.dir, "victim"), l.stack.Libcudart, "-Wl,-rpath," + l.stack.Dir, "-Wl,--allow-shlib-undefined", "-lpthread"},
		"faults*.c": {"-o", filepath.Join(l.dir, "faults"), "-lpthread"},
	} {
		sources, err := filepath.Glob(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		args = slices.Concat([]string{"-O1", "-Wall", "-Wextra", "-Werror"}, sources, args)
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	isolateSelf(t)
	return l
}

// confine has all threads of this process run on some CPUs only, and with them what they
// start, unless that says otherwise.
func confine(t testing.TB, cpus ...int) {
	t.Helper()
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	for range 2 { // a thread may begin meanwhile
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Fatal(err)
			}
		}
	}
}
