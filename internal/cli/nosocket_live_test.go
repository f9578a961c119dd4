package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/testkit"
)

// Without an exporter, a trace opens no port and sends nothing. In its network namespace, whose
// loopback is up, the kernel counts no packets, no attempts to send, and no sockets. With an
// exporter, there is one port and still no packet.
func TestNoConnections(t *testing.T) {
	for name, c := range map[string]struct {
		flags   []string
		sockets int
	}{
		"no exporter": {nil, 0},
		"Prometheus":  {[]string{"--prometheus", ":9090"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			target := b.train("--seconds", "30")
			cmd := exec.Command("/proc/self/exe", append([]string{"trace", "--pid", pid(target)}, c.flags...)...)
			cmd.Env = append(b.env, withLoopback+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			trace := testkit.Start(t, cmd)
			state := b.tracing(1)
			target.Send("go")
			testkit.Eventually(t, "calls", func() bool { return b.tracing(1).Calls > 1000 && b.tracing(1).Updated.After(state.Updated) })
			if got := sockets(t, trace.PID()); len(got) != c.sockets {
				t.Errorf("sockets: %q, want %d", got, c.sockets)
			}
			use := networkUse(t, trace.PID())
			for _, counter := range []string{"Ip.OutRequests", "Ip.OutNoRoutes", "Ip.InReceives", "Tcp.ActiveOpens", "Udp.OutDatagrams"} {
				if n := use[counter]; n != "0" {
					t.Errorf("%s is %q, want 0", counter, n)
				}
			}
		})
	}
}

// sockets returns the lines that list sockets of a process's network namespace.
func sockets(t *testing.T, pid int) (lines []string) {
	t.Helper()
	for _, kind := range []string{"tcp", "tcp6", "udp", "udp6", "raw", "raw6"} {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "net", kind))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(text)), "\n")[1:]...)
	}
	return lines
}

// networkUse returns the counters of a process's network namespace, by name.
func networkUse(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "net/snmp"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var names []string // a line of names precedes a line of numbers
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if names == nil {
			names = words
			continue
		}
		for i := 1; i < len(words); i++ {
			out[strings.TrimSuffix(words[0], ":")+"."+names[i]] = words[i]
		}
		names = nil
	}
	return out
}
