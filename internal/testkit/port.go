package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports that FreePort returns lie below those that Linux gives to clients
// (net.ipv4.ip_local_port_range, from 32768), or a connection of another program could take
// one before the server does.
const firstPort, lastPort = 10_000, 32_000

var given sync.Map // ports that this process has returned

// FreePort returns a port of the loopback that nobody listens on, for a server that must
// be told its own. No two calls of a process return the same one.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort))
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		_ = l.Close()
		return port
	}
	t.Fatal("no free port on the loopback")
	return ""
}
