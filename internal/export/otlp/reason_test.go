package otlp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A receiver that cannot be reached has its reason: its name, the route, TLS or the certificate.
func TestReasons(t *testing.T) {
	dialed := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
	}
	connect := func(n syscall.Errno) error { return os.NewSyscallError("connect", n) }
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	clear := httptest.NewServer(http.NotFoundHandler())
	defer clear.Close()
	mutual := httptest.NewUnstartedServer(http.NotFoundHandler())
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.StartTLS()
	defer mutual.Close()
	old := httptest.NewUnstartedServer(http.NotFoundHandler())
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	defer old.Close()
	for _, c := range []struct {
		name, url string
		dial      func(context.Context, string, string) (net.Conn, error)
		insecure  bool
		why, says string
		retry     bool
	}{
		{"unknown name", "http://collector", dialed(&net.DNSError{Err: "no such host", Name: "collector", IsNotFound: true}), false, "dns", "lookup collector: no such host", true},
		{"silent DNS", "http://collector", dialed(&net.DNSError{Err: "i/o timeout", Name: "collector", IsTimeout: true}), false, "dns", "lookup collector: i/o timeout", true},
		{"no route to the host", "http://collector", dialed(connect(syscall.EHOSTUNREACH)), false, "no-route", "no route to host", true},
		{"no route to the network", "http://collector", dialed(connect(syscall.ENETUNREACH)), false, "no-route", "network is unreachable", true},
		{"closed port", "http://collector", dialed(connect(syscall.ECONNREFUSED)), false, "", "connection refused", true},
		{"unknown certificate", secure.URL, nil, false, "certificate", "x509", false},
		{"no client certificate", mutual.URL, nil, true, "certificate", "certificate required", false},
		{"no TLS", strings.Replace(clear.URL, "http", "https", 1), nil, false, "tls", "HTTP response to HTTPS client", false},
		{"old version of TLS", old.URL, nil, true, "tls", "protocol version not supported", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := target(t, c.url, HTTPProtobuf, Traces)
			to.TLS = &tls.Config{InsecureSkipVerify: c.insecure}
			x := newClient(to, Traces, "1", time.Now)
			defer x.close()
			if c.dial != nil {
				x.http.Transport.(*http.Transport).DialContext = c.dial
			}
			a := x.send(context.Background(), nil)
			if a.why != c.why || a.retry != c.retry || !strings.Contains(fmt.Sprint(a.err), c.says) {
				t.Errorf("got %+v, want %s because of %q, retry %v", a, c.why, c.says, c.retry)
			}
		})
	}
	s := startSender(t, target(t, secure.URL, HTTPProtobuf, Traces), newFakeClock(), 1<<20)
	s.enqueue(parcel(5, 100))
	lost(t, s, lostCertificate, 5)
}
