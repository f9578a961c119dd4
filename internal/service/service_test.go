package service

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The manager hears what the protocol says, on paths and on abstract names.
func TestManagerIsTold(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "s"), "@ingero-test-" + strings.ReplaceAll(t.TempDir(), "/", "-")} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		m := FromEnvironment(func(k string) string { return map[string]string{"NOTIFY_SOCKET": name}[k] }, 7)
		for _, x := range []struct {
			tell func() error
			want string
		}{
			{func() error { return m.Ready("2 processes\nREADY=0") }, "READY=1\nSTATUS=2 processes READY=0"},
			{m.Reloading, "RELOADING=1\nMONOTONIC_USEC="},
			{func() error { return m.Alive("x") }, "WATCHDOG=1\nSTATUS=x"},
			{m.Stopping, "STOPPING=1"},
		} {
			if err := x.tell(); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 256)
			n, err := c.Read(buf)
			got := string(buf[:n])
			if err != nil || !strings.HasPrefix(got, x.want) || strings.HasSuffix(x.want, "=") && len(got) < len(x.want)+4 {
				t.Errorf("got %q, %v, want %q", got, err, x.want)
			}
		}
	}
}

func TestNobodyIsTold(t *testing.T) {
	var m Manager
	if m.There() || m.Ready("") != nil || m.Stopping() != nil || m.Reloading() != nil || m.Alive("") != nil {
		t.Error("the zero value does something")
	}
	gone := FromEnvironment(func(k string) string { return map[string]string{"NOTIFY_SOCKET": "/nowhere/at/all"}[k] }, 7)
	if gone.Ready("") == nil {
		t.Error("that nobody listens is no error")
	}
}

func TestWatchdog(t *testing.T) {
	for _, x := range []struct {
		usec, pid string
		want      time.Duration
	}{{"", "", 0}, {"30000000", "", 30 * time.Second}, {"30000000", "7", 30 * time.Second}, {"30000000", "8", 0}, {"-1", "", 0}, {"x", "7", 0}} {
		env := map[string]string{"WATCHDOG_USEC": x.usec, "WATCHDOG_PID": x.pid}
		if got := FromEnvironment(func(k string) string { return env[k] }, 7).Watchdog(); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
