//go:build measure

package sim

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// busy runs train and returns its CPU time.
func busy(t *testing.T, s Stack, args ...string) time.Duration {
	t.Helper()
	_, st := s.lines(t, "train", args...)
	return st.UserTime() + st.SystemTime()
}

// A blocking synchronize leaves the CPU idle, and a spinning one keeps it busy.
func TestSpinAndBlock(t *testing.T) {
	s := extract(t)
	cpu := map[string]time.Duration{}
	for _, mode := range []string{"spin", "block"} {
		cpu[mode] = busy(t, s, append([]string{"INGERO_SIM_SYNC=" + mode}, gpuBound...)...)
	}
	testkit.Measured(t, "spin-to-block", float64(cpu["spin"])/float64(cpu["block"]), "times", testkit.Higher)
	if cpu["spin"] < 3*cpu["block"] {
		t.Errorf("spin used %v of CPU, block %v: want at least three times that", cpu["spin"], cpu["block"])
	}
}

// Two programs that yield on one CPU switch constantly; two that spin run for whole time slices.
func TestYield(t *testing.T) {
	s := extract(t)
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	perSecond := map[string]float64{} // switches per second of CPU time
	for _, mode := range []string{"spin", "yield"} {
		args := append([]string{"INGERO_SIM_SYNC=" + mode, "--pin", strconv.Itoa(cpu)}, gpuBound...)
		other := testkit.Start(t, s.command("train", args...))
		_, st := s.lines(t, "train", args...)
		if err := other.Wait(); err != nil {
			t.Fatal(err)
		}
		u, ok := st.SysUsage().(*syscall.Rusage)
		if !ok {
			t.Fatalf("resource usage is a %T", st.SysUsage())
		}
		perSecond[mode] = float64(u.Nivcsw) / (st.UserTime() + st.SystemTime()).Seconds()
	}
	testkit.Measured(t, "yield-to-spin", perSecond["yield"]/perSecond["spin"], "times", testkit.Higher)
	if perSecond["yield"] < 5*perSecond["spin"] {
		t.Errorf("involuntary switches a second of CPU: yield %.0f, spin %.0f, want at least five times that",
			perSecond["yield"], perSecond["spin"])
	}
}

// A pageable copy uses CPU time; a pinned copy does not.
func TestPageableCopiesTakeTheCPU(t *testing.T) {
	s := extract(t)
	args := []string{"INGERO_SIM_PAGEABLE_MBPS=10", "INGERO_SIM_SYNC=block", "--steps", "3", "--alloc-every", "0", "--cpu-us", "0"}
	pinned := busy(t, s, args...)
	pageable := busy(t, s, append(args, "--pageable")...)
	testkit.Measured(t, "pageable-to-pinned", float64(pageable)/float64(pinned), "times", testkit.Higher)
	if pageable < 250*time.Millisecond || pageable < 5*pinned {
		t.Errorf("3 MiB pageable at 10 MB/s used %v of CPU, pinned %v", pageable, pinned)
	}
}

// A rank with a slow CPU or GPU makes all others wait, and does not wait itself.
func TestStragglerMakesTheOthersWait(t *testing.T) {
	s := extract(t)
	const steps, slow = 6, 60 * time.Millisecond
	args := []string{"--ranks", "3", "--steps", strconv.Itoa(steps), "--slow-rank", "1",
		"--slow-ms", strconv.FormatInt(slow.Milliseconds(), 10)}
	got := ranks(t, s, args...)
	for rank, c := range got {
		waited := time.Duration(c.n("wait_ns"))
		if rank != 1 && waited < steps*slow/2 {
			t.Errorf("rank %d waited %v for a rank that was %v late", rank, waited, steps*slow)
		}
		if rank == 1 && waited > steps*slow/2 {
			t.Errorf("the late rank waited %v itself", waited)
		}
	}
	for rank, c := range ranks(t, s, append(args, "--slow-gpu")...) {
		if waited := time.Duration(c.n("wait_ns")); waited < steps*slow/2 {
			t.Errorf("rank %d waited %v for a GPU that took %v", rank, waited, steps*slow)
		}
	}
}
