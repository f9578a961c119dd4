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

// lab is the setup of the scenarios.
type lab struct {
	*queue
	overhead float64 // allowed overhead as a share of the traced processes' time; 0: no limit
	forced   []int   // indexes of the govern.Steps that are always taken
	dir      string  // directory of the lab's programs
	stack    sim.Stack
}

// byDefault returns the default overhead limit of ingero trace.
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

// confine restricts all threads of this process, and by default its children, to some CPUs.
func confine(t testing.TB, cpus ...int) {
	t.Helper()
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	for range 2 { // a thread may start meanwhile
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
