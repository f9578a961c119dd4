package ledger

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// scratch is where the programs are; it goes when all tests have run.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "ledger"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		return m.Run()
	}())
}

// programs builds the workload, its libraries and the hog, once.
var programs = sync.OnceValue(func() error {
	src := func(name string) string { return filepath.Join("testdata", name) }
	out := func(name string) string { return filepath.Join(scratch, name) }
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", out("libcudart.so.12"), src("cudart.c")},
		{"-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", out("libcuda.so.1"), src("cuda.c")},
		{"-o", out("truth"), src("truth.c"), src("bodies.c"), "-L" + scratch, "-l:libcudart.so.12", "-l:libcuda.so.1",
			"-Wl,-rpath," + scratch, "-pthread"},
		{"-o", out("hog"), src("hog.c")},
	} {
		if text, err := exec.Command("gcc", append([]string{"-Wall", "-O1"}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("gcc %v: %w\n%s", args, err, text)
		}
	}
	return nil
})

// need says what these tests need of a machine, and builds the programs.
func need(t testing.TB) {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	if err := programs(); err != nil {
		t.Fatal(err)
	}
}

// twoCPUs are one for the traced thread and one for whoever helps it.
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
	// Interrupts tend to be served by the first CPU.
	return cpus[len(cpus)-1], cpus[0]
}

// onDisk returns a directory whose files are on a disk.
func onDisk(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	testkit.NeedKernel(t, "temporary files on a disk", st.Type != unix.TMPFS_MAGIC)
	return dir
}
