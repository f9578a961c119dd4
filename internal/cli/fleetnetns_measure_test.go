//go:build measure

package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/wire"
)

// fleetWorld is a network of nodes in network namespaces of this machine. One namespace, from
// which the tests ask, has a bridge, and a node is behind each port of it.
type fleetWorld struct {
	t    *testing.T
	hub  *testkit.Child
	self string
	env  []string
}

func newFleetWorld(t *testing.T) *fleetWorld {
	t.Helper()
	testkit.NeedRoot(t)
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	testkit.NeedTool(t, "ip", "tc", "nsenter")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, variable := testLock(t.TempDir())
	w := &fleetWorld{t: t, self: self, env: append(os.Environ(), variable, "TZ=UTC", "INGERO_TOKEN=0123456789abcdef", "HOME="+t.TempDir())}
	cat := exec.Command("cat")
	cat.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	w.hub = testkit.Start(t, cat)
	w.in(w.hub, "ip", "link", "add", "br0", "type", "bridge")
	w.in(w.hub, "ip", "addr", "add", "10.77.0.1/24", "dev", "br0")
	w.in(w.hub, "ip", "link", "set", "br0", "up")
	return w
}

// in runs a program in the network namespace of a child.
func (w *fleetWorld) in(of *testkit.Child, argv ...string) {
	w.t.Helper()
	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(of.PID()), "-n"}, argv...)...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
}

// agent is a node with a dashboard.
type agent struct {
	*testkit.Child
	address, pin string
}

// start starts the nth node, with its clock ahead.
func (w *fleetWorld) start(n int, db string, ahead time.Duration) *agent {
	w.t.Helper()
	cmd := exec.Command(w.self, "dashboard", "--addr", "0.0.0.0:8080", "--node", fmt.Sprintf("gpu-%d", n), "--db", db)
	cmd.Env = append(w.env, keyFile+"="+filepath.Join(w.t.TempDir(), "key"), clockOff+"="+ahead.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	a := &agent{Child: testkit.Start(w.t, cmd), address: fmt.Sprintf("10.77.0.%d:8080", 10+n)}
	host, _, _ := net.SplitHostPort(a.address)
	port := fmt.Sprintf("v%d", n)
	w.in(w.hub, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(a.PID()))
	w.in(w.hub, "ip", "link", "set", port, "master", "br0", "up")
	w.in(a.Child, "ip", "addr", "add", host+"/24", "dev", "eth0")
	w.in(a.Child, "ip", "link", "set", "eth0", "up")
	w.in(a.Child, "ip", "link", "set", "lo", "up")
	testkit.Eventually(w.t, "the dashboard serves", func() bool {
		a.pin = regexp.MustCompile(`sha256:[0-9a-f]{64}`).FindString(a.Stderr())
		return a.pin != ""
	})
	return a
}

// ask runs a command in the namespace of the bridge.
func (w *fleetWorld) ask(args ...string) (stdout, stderr string, took time.Duration) {
	w.t.Helper()
	cmd := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(w.hub.PID()), "-n", w.self}, args...)...)
	cmd.Env = w.env
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		w.t.Fatalf("%v: %v\n%s%s", args, err, out.String(), said.String())
	}
	return out.String(), said.String(), time.Since(began)
}

// Of eight nodes, one is behind a slow link, one is dead, and one has a clock skew of 80 ms. The
// others' answers arrive, and each problem is reported.
func TestFleetInNamespaces(t *testing.T) {
	w := newFleetWorld(t)
	const slow, dead, off, straggler = 3, 6, 5, 2
	at := time.Now().Add(-10 * time.Second)
	var nodes, pins []string
	var agents []*agent
	for n := range 8 {
		r := rankRecording{node: fmt.Sprintf("gpu-%d", n), rank: int32(n), ranks: 8, at: at, collectives: 400, every: 20 * time.Millisecond}
		switch n {
		case off:
			r.clock = 80 * time.Millisecond
		case straggler: // by more than the uncertainty of clocks on a busy machine
			r.late = func(i int) time.Duration { return time.Duration(i%4/3) * 15 * time.Millisecond } // one of four
		}
		a := w.start(n, r.make(t), r.clock)
		agents, nodes, pins = append(agents, a), append(nodes, a.address), append(pins, a.pin)
	}
	flags := []string{"--nodes", strings.Join(nodes, ","), "--pin", strings.Join(pins, ",")}
	// 100 groups, so that an answer takes a while on the slow link.
	count := "SELECT timestamp / 20000000 % 100 AS part, count(*) AS n, us(percentile(duration_ns, 99)) AS p99 FROM events GROUP BY part"
	if calls, notes := w.calls(append(flags, count)...); calls != 3200 || len(notes) != 1 {
		t.Errorf("of all machines: %d calls, %q", calls, notes)
	}
	w.in(agents[slow].Child, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "12kbit", "burst", "1600", "latency", "60s")
	agents[dead].Signal(syscall.SIGKILL)
	_ = agents[dead].Wait() // the error of being killed
	w.waitsForTheSlow(flags, count, fmt.Sprintf("gpu-%d", slow))
	w.leavesTheSlow(flags, count, nodes[slow])
	w.comparesRanks(flags, straggler, dead, off)
}

// calls runs the statement and returns the sum of its groups' calls, and the notes.
func (w *fleetWorld) calls(args ...string) (n int, notes []string) {
	w.t.Helper()
	out, said, _ := w.ask(append([]string{"query", "--json"}, args...)...)
	r := rowsOf(w.t, out)
	if len(r.Rows) != 100 {
		w.t.Errorf("%d groups, want 100: %s", len(r.Rows), said)
	}
	for _, row := range r.Rows {
		if row["p99"] != 20.0 {
			w.t.Errorf("got %v, want a p99 of 20 us", row)
		}
		n += int(row["n"].(float64))
	}
	return n, r.Notes
}

// troubles are the notes of a fleet with one dead node and one clock skew.
var troubles = []string{
	`^10\.77\.0\.16:8080 (is unreachable|refused the connection: nothing listens on the port|did not answer within)`, // depends on how its network goes away
	`^the clock of gpu-5 is \S+ ahead of the others' \(±\S+\): its times are off by as much$`,                        // checked by offIsRight
}

// offIsRight checks the reported clock skew of gpu-5: 80 ms within the reported uncertainty,
// which must be at most 40 ms.
func (w *fleetWorld) offIsRight(notes []string) {
	w.t.Helper()
	said := regexp.MustCompile(`gpu-5 is (\S+) ahead of the others' \(±(\S+)\):`).FindStringSubmatch(strings.Join(notes, "\n"))
	if said == nil {
		return // reported has reported it
	}
	ahead, err := time.ParseDuration(said[1])
	within, err2 := time.ParseDuration(said[2])
	if wrong := ahead - 80*time.Millisecond; err != nil || err2 != nil || wrong.Abs() > within || within > 40*time.Millisecond {
		w.t.Errorf("%q (%v, %v), want 80 ms", said[0], err, err2)
	}
}

func (w *fleetWorld) reported(notes []string, want ...string) {
	w.t.Helper()
	for _, re := range want {
		if !regexp.MustCompile("(?m)" + re).MatchString(strings.Join(notes, "\n")) {
			w.t.Errorf("no note like %q in %q", re, notes)
		}
	}
	w.offIsRight(notes)
	if len(notes) != len(want) {
		w.t.Errorf("%d notes, want %d: %q", len(notes), len(want), notes)
	}
}

// waitsForTheSlow asks with a long timeout: the slow node answers, and is named.
func (w *fleetWorld) waitsForTheSlow(flags []string, statement, slow string) {
	w.t.Helper()
	calls, notes := w.calls(append(flags, "--node-timeout", "60s", "--timeout", "30s", statement)...)
	if calls != 2800 {
		w.t.Errorf("with patience: %d calls", calls)
	}
	w.reported(notes, append(troubles, "^"+slow+` was slow: it took \S+s, the other nodes about `, "^the clock skew of "+slow+" is known only within ")...)
}

// leavesTheSlow asks with a short timeout: the others' answers arrive soon.
func (w *fleetWorld) leavesTheSlow(flags []string, statement, slow string) {
	w.t.Helper()
	began := time.Now()
	calls, notes := w.calls(append(flags, "--node-timeout", "4s", statement)...)
	if took := time.Since(began); took > 30*time.Second {
		w.t.Errorf("it took %s", took)
	}
	if calls != 2400 {
		w.t.Errorf("without patience: %d calls", calls)
	}
	w.reported(notes, append(troubles, "^"+regexp.QuoteMeta(slow)+` did not answer within 4s `)...)
}

// comparesRanks checks that the late rank is found in spite of clock skew.
func (w *fleetWorld) comparesRanks(flags []string, straggler, dead, off int32) {
	w.t.Helper()
	out, said, _ := w.ask(append([]string{"explain", "--json", "--since", "5m", "--node-timeout", "4s"}, flags...)...)
	var r wire.FleetReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Communicators) != 1 {
		w.t.Fatalf("%v: %s %s", err, out, said)
	}
	c := &r.Communicators[0]
	if len(c.Seen) != 6 || len(c.Unseen) != 2 || c.Unseen[1] != dead || c.Compared != 400 || len(c.Absent) != 0 {
		w.t.Errorf("got %+v", c)
	}
	if len(c.Late) != 1 || c.Late[0].Rank != straggler || c.Late[0].Times != 100 {
		w.t.Fatalf("late: %+v, want rank %d, 100 times", c.Late, straggler)
	}
	l := &c.Late[0]
	if wrong := time.Duration(l.WaitedNS) - 1500*time.Millisecond; wrong.Abs() > time.Duration(l.WithinNS) {
		w.t.Errorf("waited %s, give or take %s, want 1500 ms", time.Duration(l.WaitedNS), time.Duration(l.WithinNS))
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if wrong := time.Duration(n.AheadNS) - 80*time.Millisecond; n.Name == fmt.Sprintf("gpu-%d", off) && wrong.Abs() > time.Duration(n.Within) {
			w.t.Errorf("its clock is ahead by %s, give or take %s, want 80 ms", time.Duration(n.AheadNS), time.Duration(n.Within))
		}
	}
}
