package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports of FreePort lie below Linux's range for clients (net.ipv4.ip_local_port_range, from
// 32768). Otherwise another program's connection could take one before the server does.
const firstPort, lastPort = 10_000, 32_000

var given sync.Map // ports that this process has returned

// FreePort returns an unused loopback port, for a server that needs its port in advance. No two
// calls in a process return the same port.
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
