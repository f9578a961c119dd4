package cli

import (
	"errors"
	"net"
	"strings"
	"testing"

	"ingero/internal/listen"
)

// A port that cannot be opened is reported with a remedy.
func TestListenOn(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for name, c := range map[string]struct {
		address  string
		o        listen.Options
		what, do string
		code     int
	}{
		"taken":      {taken.Addr().String(), listen.Options{}, "another program uses this port", "ss -ltnp", 0},
		"open":       {"0.0.0.0:0", listen.Options{}, "requires a token", "for this machine only", exitUsage},
		"no port":    {":http", listen.Options{}, "is not a port", ":9090", exitUsage},
		"not ours":   {"192.0.2.1:0", listen.Options{Public: true}, "192.0.2.1:0", "ip address", 0},
		"no address": {"[::1", listen.Options{}, "must be :PORT", ":9090", exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := listenOn(t.Context(), "--prometheus", c.address, c.o)
			var p *problem
			if !errors.As(err, &p) {
				t.Fatalf("got %v, %v, want a problem", l, err)
			}
			if !strings.Contains(p.What, c.what) || !strings.Contains(p.Do, c.do) || p.Code != c.code || !strings.HasPrefix(p.What, "--prometheus") {
				t.Errorf("got %q, %q, code %d", p.What, p.Do, p.Code)
			}
		})
	}
	l, err := listenOn(t.Context(), "--prometheus", ":0", listen.Options{})
	if err != nil || !l.Local() {
		t.Fatalf("got %v, %v", l, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
