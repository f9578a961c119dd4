package listen

import (
	"errors"
	"net"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{":9090", "127.0.0.1:9090"},
		{"9090", "127.0.0.1:9090"},
		{":0", "127.0.0.1:0"},
		{"127.0.0.1:9090", "127.0.0.1:9090"},
		{"localhost:9090", "localhost:9090"},
		{"0.0.0.0:9090", "0.0.0.0:9090"},
		{"[::]:9090", "[::]:9090"},
		{"[::1]:1", "[::1]:1"},
		{"gpu-7:65535", "gpu-7:65535"},
		{"", ""}, {":", ""}, {":x", ""}, {":65536", ""}, {":-1", ""}, {"::9090", ""}, {"::1:9090", ""},
		{"http://x:9090", ""}, {"a b:9090", ""}, {"*:9090", ""}, {"x:9090/metrics", ""}, {"x:http", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			a, err := Parse(c.text)
			if c.want == "" {
				if !errors.Is(err, ErrAddress) {
					t.Errorf("got %v, %v, want ErrAddress", a, err)
				}
				return
			}
			if err != nil || a.String() != c.want {
				t.Errorf("got %v, %v, want %s", a, err, c.want)
			}
		})
	}
}

func open(t *testing.T, text string, o Options) (*Listener, error) {
	t.Helper()
	a, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), a, o)
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

// The requested address is bound and reported.
func TestListen(t *testing.T) {
	for _, c := range []struct {
		text  string
		o     Options
		addr  string // without the port; empty: refused
		local bool
		says  string
	}{
		{text: ":0", addr: "127.0.0.1", local: true, says: "(this machine only)"},
		{text: "localhost:0", addr: "127.0.0.1", local: true, says: "(this machine only)"},
		{text: "0.0.0.0:0"},
		{text: "[::]:0"},
		{text: "0.0.0.0:0", o: Options{Public: true}, addr: "0.0.0.0", says: "(every address of this machine)"},
		{text: "[::]:0", o: Options{Public: true}, addr: unspecified(t), says: "(every address of this machine)"},
		{text: "0.0.0.0:0", o: Options{Token: "x"}, addr: "0.0.0.0", says: "(every address of this machine)"},
	} {
		t.Run(c.text, func(t *testing.T) {
			l, err := open(t, c.text, c.o)
			if c.addr == "" {
				if !errors.Is(err, ErrOpen) {
					t.Fatalf("got %v, %v, want ErrOpen", l, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Bound().Addr().String(); got != c.addr || l.Local() != c.local {
				t.Errorf("bound %s, local %v, want %s, %v", got, l.Local(), c.addr, c.local)
			}
			if l.Bound().Port() == 0 || !strings.HasPrefix(l.String(), l.Bound().String()+" ") || !strings.HasSuffix(l.String(), c.says) {
				t.Errorf("it says %q", l)
			}
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", portOf(l)))
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		})
	}
}

// unspecified returns the address that [::] binds: 0.0.0.0 if the kernel has no IPv6.
func unspecified(t *testing.T) string {
	l, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		return "0.0.0.0"
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return "::"
}

func portOf(l *Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// A port in use is an error.
func TestTaken(t *testing.T) {
	l, err := open(t, ":0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := open(t, l.Bound().String(), Options{}); err == nil {
		t.Errorf("%v was bound twice", again)
	}
}

func TestNames(t *testing.T) {
	local, err := open(t, ":0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := open(t, "0.0.0.0:0", Options{Public: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host       string
		local, all bool
	}{
		{"127.0.0.1:9090", true, true}, {"127.0.0.1", true, true}, {"[::1]:9090", true, true}, {"[::1]", true, true},
		{"localhost:9090", true, true}, {"LOCALHOST.", true, true}, {"a.localhost", true, true},
		{"10.0.0.7:9090", false, true},
		{"evil.example:9090", false, false}, {"localhost.evil.example", false, false}, {"", false, false}, {"127.0.0.1.evil.example", false, false},
	} {
		if got := local.Names(c.host); got != c.local {
			t.Errorf("loopback, %q: %v, want %v", c.host, got, c.local)
		}
		if got := all.Names(c.host); got != c.all {
			t.Errorf("all, %q: %v, want %v", c.host, got, c.all)
		}
	}
}
