package session_test

import (
	"maps"
	"strconv"
	"syscall"
	"testing"

	"ingero/internal/probes"
	"ingero/internal/testkit"
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
			inNamespace(t, c.PID(), testkit.LoopbackUp)
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

// Peers of connected UDP and UNIX sockets are known, and which of them are clients. A socketpair, a socket that
// takes logs, and an unconnected one have none.
func TestHostSockets(t *testing.T) {
	t.Parallel()
	const n = 40
	c := hostWorker(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}, "sockets", strconv.Itoa(n), t.TempDir())
	inNamespace(t, c.PID(), testkit.LoopbackUp)
	r := watchHost(t, c, probes.Options{})
	c.Send("go")
	c.Line("done")
	r.stop(t, c)
	udp := map[string]uint64{"127.0.0.1:5353": 2 * n, "127.0.0.1": n}
	unix := map[string]uint64{"a.sock": n, "...efghijklmnopqrstuvwxyz0123456789": n, "": 2 * n}
	for kind, want := range map[tick.HostEvent]map[string]uint64{tick.HostSend: {}, tick.HostReceive: {},
		tick.HostUDPSend: udp, tick.HostUDPReceive: udp, tick.HostUnixSend: unix, tick.HostUnixReceive: unix} {
		got := map[string]uint64{}
		for _, s := range r.host.List() {
			if s.Kind != kind || int(s.PID) != c.PID() {
				continue
			}
			got[s.Object] += s.Count
			if s.Bytes != 50*s.Count || s.NS != 0 {
				t.Errorf("%+v, want 50 bytes each, and no round trip", s)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v %v, want %v", kind, got, want)
		}
	}
}
