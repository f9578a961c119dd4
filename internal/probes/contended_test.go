package probes_test

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/probes"
	"ingero/internal/testkit"
)

// Threads that share a CPU waited for it in calls as long by their accounts as by the sums of the
// calls, also on a kernel that stops threads in the programs of probes. Sums may have less: a call's
// own time does not include what its probes cost.
func TestAccountsOfContendedThreads(t *testing.T) {
	testkit.NeedBPF(t)
	tr, child := launcher(t, probes.ModeSession)
	oneCPU(t, child.PID())
	child.Send("l")
	child.Line("loaded")
	const enough = 300e6 // ns; of threads that share a CPU
	testkit.Eventually(t, "the calls to wait for the CPU", func() bool { return waited(t, tr) > enough })
	child.Send("")
	launched(child)
	calls, account := waited(t, tr), uint64(0)
	if err := tr.Threads(func(_ uint32, s *probes.ThreadState, _ uint64) { account += s.Clock.Account.InCalls.Runnable }); err != nil {
		t.Fatal(err)
	}
	if account < calls || account > calls+calls/10 {
		t.Errorf("the threads waited for the CPU for %d ns in calls, by their accounts for %d ns", calls, account)
	}
}

// waited returns how long the outermost calls waited for a CPU, ns.
func waited(t *testing.T, tr *probes.Tracer) (ns uint64) {
	t.Helper()
	if err := tr.Counts(func(c *probes.CountsRow) {
		if tr.Rows()[c.Row].Name != inner {
			ns += c.RunnableNs
		}
	}); err != nil {
		t.Fatal(err)
	}
	return ns
}

// oneCPU restricts all threads of a process to one CPU.
func oneCPU(t *testing.T, pid int) {
	t.Helper()
	var only unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &only); err != nil {
		t.Fatal(err)
	}
	for cpu := range 64 * len(only) {
		if only.Count() > 1 {
			only.Clear(cpu)
		}
	}
	tasks, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tasks {
		tid, err := strconv.Atoi(x.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.SchedSetaffinity(tid, &only); err != nil {
			t.Fatal(err)
		}
	}
}
