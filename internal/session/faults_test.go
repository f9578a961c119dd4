package session_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/xid"
)

// domain returns a PCI domain that no machine has, to distinguish the faults of each test.
func domain() string { return fmt.Sprintf("%08x", 0x30000000+rand.Uint32N(1<<28)) }

// say writes a line to the kernel log. Each line uses its own open file, since the kernel limits
// one to ten lines in five seconds.
func say(t testing.TB, format string, args ...any) {
	t.Helper()
	f, err := os.OpenFile(xid.LogPath, os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(f, format+"\n", args...)
		err = errors.Join(err, f.Close())
	}
	testkit.NeedKernel(t, fmt.Sprintf("a log that can be written (%v)", err), err == nil)
}

// xids returns the faults of a domain that a session has reported.
func (c *collector) xids(domain string) []tick.Xid {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []tick.Xid
	for i := range c.faults {
		if strings.HasPrefix(c.faults[i].Bus, domain) {
			out = append(out, c.faults[i])
		}
	}
	return out
}

// reported writes faults one after the other until one is reported with its process's earlier calls.
// Calls are kept for a bounded number of faults at a time, and other tests may cause faults too.
func reported(t *testing.T, r *running, child *testkit.Child) {
	t.Helper()
	domain, said := domain(), 0
	testkit.Eventually(t, "a fault with the calls before it", func() bool {
		all := r.xids(domain)
		if len(all) == said {
			say(t, "NVRM: Xid (PCI:%s:%02x:00): 31, pid=%d, name=worker, Ch 00000001", domain, said, child.PID())
			said++
		}
		return slices.ContainsFunc(all, func(x tick.Xid) bool { return len(x.Last) == 4 })
	})
}

// A burst of faults while a process is traced is reported completely, root first, joined to its
// process and that process's last calls: in any order of codes, and 200 at once.
func TestFaultsOfATracedProcess(t *testing.T) {
	dir := build(t)
	testkit.LeakCheck(t)
	testkit.KernelLog(t, false)
	const made = 100
	child := worker(t, dir, "hold", fmt.Sprint(made))
	child.Line("ready")
	r := begin(t, session.LiveOptions{Select: pids(child)})
	child.Send("go")
	child.Line("done")
	testkit.Eventually(t, "calls", func() bool { return r.saw() == made })
	domain := domain()
	orders := [][3]uint32{{172, 48, 13}, {172, 13, 48}, {48, 172, 13}, {48, 13, 172}, {13, 172, 48}, {13, 48, 172}}
	for i, codes := range orders {
		for j, code := range codes {
			say(t, "NVRM: Xid (PCI:%s:%02x:00): %d, pid=%d, name=worker, Ch %08x", domain, i, code, child.PID(), j)
		}
	}
	const many = 200 // fits into the kernel log, even if it is read late
	for i := range many {
		say(t, "NVRM: Xid (PCI:%s:ff:00): %d, pid=%d, name=worker, Ch %08x", domain, orders[0][min(i, 2)], child.PID(), i)
	}
	n := 3*len(orders) + many
	testkit.Eventually(t, "all faults", func() bool { return len(r.xids(domain)) >= n })
	reported(t, r, child)
	child.CloseStdin()
	r.cancel()
	r.end(t)
	got := r.xids(domain)
	if len(got) != n {
		t.Fatalf("%d faults are reported, want %d", len(got), n)
	}
	for i := range got {
		x := &got[i]
		codes, at := orders[0], i-3*len(orders)
		if at < 0 {
			codes, at = orders[i/3], i%3
		}
		if x.Code != codes[min(at, 2)] || x.At != at+1 || x.Root != codes[0] || !strings.HasSuffix(x.Msg, fmt.Sprintf("%08x", at)) || x.Via != tick.ViaKernelLog || !x.Injected {
			t.Fatalf("fault %d is reported as %+v", i, x)
		}
		if x.PID != uint32(child.PID()) || x.Comm != "worker" {
			t.Fatalf("fault %d hit %d (%s), last calls %+v", i, x.PID, x.Comm, x.Last)
		}
		for _, c := range x.Last {
			if c.Op.String() != "cudaStreamSynchronize" || c.Before < 0 {
				t.Fatalf("fault %d: last call %+v", i, c)
			}
		}
	}
}

// If the driver's message has the PID of a container's namespace, it is not mistaken for the host's
// init.
func TestFaultsInAContainer(t *testing.T) {
	t.Parallel()
	dir := build(t)
	cmd := exec.Command(filepath.Join(dir, "worker"), "stay", "1")
	cmd.Env = append(os.Environ(), "LIBCUDART="+filepath.Join(dir, "libcudart.so.12"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	child := testkit.Start(t, cmd)
	child.Line("ready")
	testkit.KernelLog(t, false)
	r := begin(t, session.LiveOptions{Select: pids(child)})
	child.Send("go")
	testkit.Eventually(t, "calls", func() bool { return r.saw() > 100 })
	domain := domain()
	say(t, "NVRM: Xid (PCI:%s:01:00): 31, pid=1, name=worker, Ch 00000001, intr 00000000. MMU Fault", domain)
	say(t, "NVRM: Xid (PCI:%s:01:00): 31, pid=1, name=another, Ch 00000001", domain)
	testkit.Eventually(t, "the faults", func() bool { return len(r.xids(domain)) == 2 })
	child.Signal(syscall.SIGKILL)
	r.cancel()
	r.end(t)
	if x := r.xids(domain)[0]; x.PID != uint32(child.PID()) || x.Comm != "worker" || x.SaidPID != 1 {
		t.Errorf("the fault hit %d (%s), want %d", x.PID, x.Comm, child.PID())
	}
	if x := r.xids(domain)[1]; x.PID != 0 {
		t.Errorf("the fault of another hit %d (%s)", x.PID, x.Comm)
	}
}

// Faults are read in each possible way, and each unavailable way has its error.
func TestOpenFaults(t *testing.T) {
	testkit.LeakCheck(t)
	testkit.KernelLog(t, false)
	empty := filepath.Join(t.TempDir(), "kmsg")
	if _, err := session.OpenFaults(t.Context(), session.FaultOptions{Only: tick.ViaKernelLog, LogPath: empty}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a log: %v", err)
	}
	f, err := session.OpenFaults(t.Context(), session.FaultOptions{LogPath: empty, Loaded: func() bool { return false }})
	if err != nil {
		t.Fatalf("before the driver is loaded: %v", err)
	}
	want := 0
	if tracepoints, _ := f.Ways(); len(tracepoints) != 0 { // the machine has the driver: the log is missing
		want = 1
	}
	if reports, err := f.Reports(), f.Close(); len(reports) != want || err != nil {
		t.Errorf("before the driver is loaded: %v, reports %v", err, reports)
	}
	domain := domain()
	say(t, "NVRM: Xid (PCI:%s:01:00): 79, GPU has fallen off the bus.", domain)
	for _, history := range []bool{true, false} {
		f, err := session.OpenFaults(t.Context(), session.FaultOptions{Only: tick.ViaKernelLog, History: history})
		if err != nil {
			t.Fatal(err)
		}
		if tracepoints, log := f.Ways(); len(tracepoints) != 0 || log != xid.LogPath {
			t.Errorf("ways %v, %q", tracepoints, log)
		}
		n := 0
		for _, x := range f.Drain(nil) {
			if strings.HasPrefix(x.Bus, domain) {
				n++
			}
		}
		if n != map[bool]int{true: 1}[history] {
			t.Errorf("%d faults from before, history %v", n, history)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
	}
}
