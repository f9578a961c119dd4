package session_test

import (
	"maps"
	"strconv"
	"syscall"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/tick"
)

// Who connected decides which peer is a client, not the port: the server's may be in the range that
// Linux gives to clients.
func TestHostPeers(t *testing.T) {
	t.Parallel()
	const n = 40
	for _, port := range []string{"5002", "50051"} {
		t.Run(port, func(t *testing.T) {
			c := hostWorker(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, "tcp", strconv.Itoa(n), port)
			inNamespace(t, c.PID(), loopbackUp)
			r := watchHost(t, c, probes.Options{})
			c.Send("go")
			c.Line("ready")
			c.Send("go")
			said(t, c, "connect")
			r.stop(t, c)
			sends := map[string]uint64{}
			for _, s := range r.host.List() {
				if s.Kind == tick.HostSend && int(s.PID) == c.PID() {
					sends[s.Object] += s.Count
				}
			}
			if want := map[string]uint64{"127.0.0.1:" + port: n, "127.0.0.1": n}; !maps.Equal(sends, want) {
				t.Errorf("sends %v, want %v", sends, want)
			}
		})
	}
}
