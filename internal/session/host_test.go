package session_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/probes"
	"ingero/internal/session"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// hostWorker starts the workload, which measures itself.
func hostWorker(t testing.TB, attr *syscall.SysProcAttr, args ...string) *testkit.Child {
	t.Helper()
	testkit.NeedBPF(t)
	testkit.NeedTool(t, "gcc")
	bin := filepath.Join(t.TempDir(), "hostwork")
	if out, err := exec.Command("gcc", "-O1", "-o", bin, "testdata/host.c", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	cmd := exec.Command(bin, args...)
	cmd.SysProcAttr = attr
	c := testkit.Start(t, cmd)
	c.Line("ready")
	return c
}

// watchHost starts a session that traces a process.
func watchHost(t testing.TB, c *testkit.Child, o probes.Options) *running {
	t.Helper()
	return begin(t, session.LiveOptions{Select: pids(c), Probes: o})
}

// of adds up a process's sums of a kind.
func (r *running) of(k tick.HostEvent, pid int) (sum tick.HostSum) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.host.List() {
		if s.Kind == k && int(s.PID) == pid {
			if sum.Add(&s); sum.Object == "" {
				sum.HostKey = s.HostKey
			}
		}
	}
	return sum
}

// said parses a line of the workload: a word and two numbers.
func said(t testing.TB, c *testkit.Child, word string) (n, ns uint64) {
	t.Helper()
	line := c.Line(word + " ")
	if _, err := fmt.Sscanf(strings.TrimPrefix(line, word), "%d %d", &n, &ns); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return n, ns
}

// stop ends a workload and then the session.
func (r *running) stop(t testing.TB, c *testkit.Child) {
	t.Helper()
	c.CloseStdin()
	_ = c.Wait()
	r.end(t)
}

// useDisk makes the workload write and read n blocks. It returns the workload's own times in ns,
// and the events of the kernel's tracer.
func useDisk(t *testing.T, n int) (c *testkit.Child, r *running, wrote, read uint64, seen []seenEvent) {
	t.Helper()
	c = hostWorker(t, nil, "disk", filepath.Join(t.TempDir(), "file"), strconv.Itoa(n))
	r = watchHost(t, c, probes.Options{})
	begins := "block/block_io_start"
	if _, err := os.Stat("/sys/kernel/tracing/events/" + begins); err != nil {
		begins = "block/block_rq_issue"
	}
	saw := witness(t, 0, begins, "block/block_rq_complete")
	c.Send("go")
	_, wrote = said(t, c, "write")
	_, read = said(t, c, "read")
	seen = saw()
	r.stop(t, c)
	return c, r, wrote, read, seen
}

// The disk sums equal the workload's requests, and their time is within the workload's.
func TestHostDisk(t *testing.T) {
	t.Parallel()
	const n, block = 200, 256 << 10
	c, r, wrote, read, seen := useDisk(t, n)
	for _, x := range []struct {
		kind  tick.HostEvent
		ns    uint64
		trace string
	}{{tick.HostDiskWrite, wrote, "W"}, {tick.HostDiskRead, read, "R"}} {
		s := r.of(x.kind, c.PID())
		m, hidden, _ := requests(seen, fmt.Sprintf("hostwork-%d", c.PID()), x.trace)
		if m != n {
			t.Errorf("%v: the kernel's tracer saw %d requests, want %d", x.kind, m, n)
		}
		if s.Count > n || s.Count+hidden < n || s.Bytes != s.Count*block || s.Failed != 0 || s.Object == "" || s.Comm != "hostwork" || s.Hist.Count() != s.Count {
			t.Errorf("%v: %+v, want %d requests of %d bytes, but for %d at most", x.kind, s, n, block, hidden)
		}
		if s.NS > x.ns { // excludes the path to the block layer and back
			t.Errorf("%v: %d ns in requests, the workload says %d", x.kind, s.NS, x.ns)
		}
	}
}

// Disabled parts are not watched, and a report says so.
func TestHostOff(t *testing.T) {
	t.Parallel()
	off := []probes.HostPart{probes.HostDisk, probes.HostTCP, probes.HostNet}
	c := hostWorker(t, nil, "disk", filepath.Join(t.TempDir(), "file"), "10")
	r := watchHost(t, c, probes.Options{NoHost: off})
	c.Send("go")
	c.Line("read ")
	r.stop(t, c)
	for _, s := range r.host.List() {
		if row := s.Kind.Row(); row.Object == "device" || row.Object == "peer" {
			t.Errorf("%+v", s)
		}
	}
	reported := map[string]bool{}
	for _, x := range r.last.Reports {
		if x.Kind == "host-off" {
			reported[x.Object] = true
		}
	}
	for _, part := range append(off, probes.HostPages) {
		if !reported[string(part)] {
			t.Errorf("no report says that %s is off: %v", part, reported)
		}
	}
}

// Each signal that stops or kills has its sender.
func TestHostSignals(t *testing.T) {
	t.Parallel()
	const n = 20
	c := hostWorker(t, nil, "wait")
	r := watchHost(t, c, probes.Options{})
	for range n {
		c.Signal(syscall.SIGSTOP)
		testkit.Eventually(t, "the workload to stop", func() bool { return state(c.PID()) == "T" })
		c.Signal(syscall.SIGCONT)
		testkit.Eventually(t, "the workload to go on", func() bool { return state(c.PID()) == "S" })
	}
	c.Signal(syscall.SIGUSR2) // is blocked, and kills nobody
	c.Signal(syscall.SIGUSR1) // kills by default
	_ = c.Wait()
	r.end(t)
	got := map[string]uint64{}
	for _, s := range r.host.List() {
		if s.Kind == tick.HostSignal && int(s.PID) == c.PID() && int(s.Sender) == os.Getpid() {
			got[s.Object] += s.Count
		}
	}
	if len(got) != 2 || got["SIGSTOP"] != n || got["SIGUSR1"] != 1 {
		t.Errorf("signals %v, want %d SIGSTOP and one SIGUSR1", got, n)
	}
	for _, e := range r.procs {
		if e.Kind == tick.ProcKilled && int(e.PID) == c.PID() && e.Signal == uint8(syscall.SIGUSR1) && int(e.Peer) == os.Getpid() {
			return
		}
	}
	t.Errorf("no event tells who killed it: %+v", r.procs)
}

// state returns a process's state letter.
func state(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(len(rest), 1)]
}

// Reclaim at a cgroup's limit is counted as often as the kernel's tracer sees it, and hits of the
// limit as often as the cgroup counts.
func TestHostReclaim(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(file, make([]byte, 96<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, enter := memoryGroup(t, 16<<20)
	c := hostWorker(t, nil, "cache", file)
	enter(c.PID())
	if err := dropCache(file); err != nil {
		t.Fatal(err)
	}
	r := watchHost(t, c, probes.Options{})
	saw := witness(t, c.PID(), "vmscan/mm_vmscan_memcg_reclaim_begin")
	c.Send("go")
	c.Line("read")
	want := len(saw())
	r.stop(t, c)
	s := r.of(tick.HostCgroupReclaim, c.PID())
	if want == 0 || s.Count != uint64(want) || s.Bytes == 0 || s.NS == 0 || s.Hist.Count() != s.Count {
		t.Errorf("%+v, want %d times", s, want)
	}
	at := tick.HostSum{}
	for _, x := range r.host.List() {
		if x.Kind == tick.HostAtLimit && strings.HasSuffix(dir, x.Object) {
			at.Add(&x)
		}
	}
	if strings.HasPrefix(dir, "/sys/fs/cgroup/memory/") {
		if n := counter(t, filepath.Join(dir, "memory.failcnt"), ""); at.Count == 0 || at.Count > n {
			t.Errorf("at its limit %d times, the cgroup says %d", at.Count, n)
		}
	}
}

// A cgroup without CPU time left is throttled as often and as long as the kernel accounts.
func TestHostThrottled(t *testing.T) {
	t.Parallel()
	dir, enter := group(t, "cpu", map[string]string{"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "1000"}, map[string]string{"cpu.max": "1000 20000"})
	c := hostWorker(t, nil, "spin", "25") // a busy machine has a twentieth of a CPU, too
	enter(c.PID())
	r := watchHost(t, c, probes.Options{})
	c.Send("go")
	c.Line("spun")
	// The kernel counts a throttled period when the period ends, possibly after the worker has
	// finished. Without a quota it stops counting, so the trace and the test read the same.
	unlimited := [2]string{"cpu.cfs_quota_us", "-1"}
	if _, err := os.Stat(filepath.Join(dir, unlimited[0])); err != nil {
		unlimited = [2]string{"cpu.max", "max"}
	}
	if err := os.WriteFile(filepath.Join(dir, unlimited[0]), []byte(unlimited[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	r.stop(t, c)
	var got tick.HostSum
	for _, s := range r.host.List() {
		if s.Kind == tick.HostThrottled && s.Object != "" && strings.HasSuffix(dir, s.Object) {
			got.Add(&s)
		}
	}
	stat, key, unit := filepath.Join(dir, "cpu.stat"), "throttled_time ", uint64(1)
	if b, _ := os.ReadFile(stat); strings.Contains(string(b), "throttled_usec ") {
		key, unit = "throttled_usec ", 1000
	}
	n, ns := counter(t, stat, "nr_throttled "), unit*counter(t, stat, key)
	t.Logf("throttled %d times, %d ns", n, ns)
	if n == 0 || got.Count != n || got.NS != ns {
		t.Errorf("%+v, want %d times and %d ns", got, n, ns)
	}
}

// dropCache evicts a file from the page cache.
func dropCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// An OOM-killed process is reported with its cgroup.
func TestHostOOM(t *testing.T) {
	t.Parallel()
	dir, enter := memoryGroup(t, 16<<20)
	c := hostWorker(t, nil, "touch", "64")
	enter(c.PID())
	r := watchHost(t, c, probes.Options{})
	c.Send("go")
	_ = c.Wait()
	r.end(t)
	s := r.of(tick.HostOOM, c.PID())
	if s.Count != 1 || s.Comm != "hostwork" || s.Object == "" || !strings.HasSuffix(dir, s.Object) {
		t.Errorf("%+v, want one in %s", s, dir)
	}
	if s := r.of(tick.HostSignal, c.PID()); s.Object != "SIGKILL" || s.Sender != 0 {
		t.Errorf("signal %+v, want the kernel's SIGKILL", s)
	}
	for _, e := range r.procs {
		if e.Kind == tick.ProcOOM && int(e.PID) == c.PID() && e.Comm == "hostwork" {
			return
		}
	}
	t.Errorf("no event tells of it: %+v", r.procs)
}

// Pages are counted by order as the kernel's tracer sees them, but only on request.
func TestHostPages(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			c := hostWorker(t, nil, "touch", "8")
			r := watchHost(t, c, probes.Options{Pages: on})
			saw := witness(t, c.PID(), "kmem/mm_page_alloc")
			c.Send("go")
			c.Line("touched")
			testkit.Eventually(t, "it to wait", func() bool { return state(c.PID()) == "S" })
			want := uint64(len(saw()))
			if on {
				testkit.Eventually(t, "the next tick", func() bool { return r.of(tick.HostPages, c.PID()).Count >= want })
			}
			s := r.of(tick.HostPages, c.PID())
			r.stop(t, c)
			if !on {
				if s.Count != 0 {
					t.Errorf("%+v, want none", s)
				}
				return
			}
			if want < 8<<20/4096/512 || s.Count != want || s.Bytes < 8<<20 {
				t.Errorf("%+v, want %d", s, want)
			}
		})
	}
}

// Packets that a program drops are retransmitted as often as the socket counts.
func TestHostTCP(t *testing.T) {
	t.Parallel()
	const n = 40
	c := hostWorker(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, "tcp", strconv.Itoa(n), "5001")
	inNamespace(t, c.PID(), testkit.LoopbackUp)
	r := watchHost(t, c, probes.Options{})
	c.Send("go")
	c.Line("ready")
	loseOnLoopback(t, c.PID(), 8)
	saw := witness(t, 0, "tcp/tcp_retransmit_skb")
	c.Send("go")
	_, connected := said(t, c, "connect")
	again, _ := said(t, c, "retransmits")
	hidden := uint64(0) // in an interrupt of a thread of init, like disk requests
	for _, e := range saw() {
		if strings.Contains(e.text, "dport=5001") && ofInit(e.who) {
			hidden++
		}
	}
	var client, server uint64 // the server's peer has an ephemeral port
	count := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		client, server = 0, 0
		for _, s := range r.host.List() {
			if s.Kind == tick.HostRetransmit && int(s.PID) == c.PID() {
				if s.Object == "127.0.0.1:5001" {
					client += s.Count
				} else {
					server += s.Count
				}
			}
		}
	}
	// Before the program ends: the FIN of its socket may be lost, too.
	testkit.Eventually(t, "all retransmits", func() bool { count(); return client+hidden >= again && client+server > 0 })
	r.stop(t, c)
	if client > again {
		t.Errorf("%d retransmits to the server, %d hidden, and %d back, the socket says %d", client, hidden, server, again)
	}
	s := r.of(tick.HostConnect, c.PID())
	if s.Count != 1 || s.Failed != 0 || s.NS > connected || s.Object != "127.0.0.1:5001" {
		t.Errorf("%+v, want one connect in %d ns", s, connected)
	}
	if s := r.of(tick.HostSend, c.PID()); s.Count != 2*n || s.Bytes != 2*n*50 || s.Hist.Count() == 0 {
		t.Errorf("%+v, want %d sends", s, 2*n)
	}
	if s := r.of(tick.HostReceive, c.PID()); s.Bytes != 2*n*50 {
		t.Errorf("%+v, want %d bytes", s, 2*n*50)
	}
}
