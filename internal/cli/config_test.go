package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingero/internal/config"
	"ingero/internal/mute"
	"ingero/internal/store"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// The settings marked as reloadable are those that a running trace reloads.
func TestReloadsAreThoseOfTheTable(t *testing.T) {
	for i := range config.Settings {
		s := &config.Settings[i]
		if got := reloads[s.Key] != nil; got != s.Reload {
			t.Errorf("%s: it is changed %v, the table says %v", s.Key, got, s.Reload)
		}
	}
}

// A reload applies the reloadable settings and names those that need a restart; on an error, it
// changes nothing.
func TestReload(t *testing.T) {
	load := func(flags map[string]string) *config.Config {
		c, err := config.Load(config.Inputs{Flags: flags, SystemFile: "/nowhere", Home: "/home/bob"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := load(nil)
	bad := &config.Error{At: "x.yaml:3", What: "there is no setting trace.stak", Do: "did you mean trace.stack?"}
	for _, x := range []struct {
		name  string
		next  map[string]string
		err   error
		least tick.Severity // 0: unchanged
		said  []string
	}{
		{name: "nothing", said: []string{"ingero: reloaded the settings: no changes"}},
		{name: "one", next: map[string]string{"min-severity": "HIGH"}, least: tick.High, said: []string{"ingero: causes.min-severity is now HIGH"}},
		{name: "some", next: map[string]string{"max-db": "1g", "stack": "all", "min-severity": "MEDIUM"}, least: tick.Medium,
			said: []string{"ingero: causes.min-severity is now MEDIUM", "ingero: trace.max-db is now 1g", "ingero: unchanged until a restart: trace.stack"}},
		{name: "wrong", err: bad, said: []string{"ingero: the settings stay unchanged: x.yaml:3: there is no setting trace.stak", "        did you mean trace.stack?"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			db, err := store.Open(store.Options{Path: filepath.Join(t.TempDir(), "x.db"), Session: segment.Session{ID: "s", Started: time.Unix(1, 0)}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			tr := &tracing{hidden: &chainFilter{Filter: mute.Filter{Least: tick.Low}}, rec: &recording{db: db}}
			var said []string
			got := tr.reload(old, func() (*config.Config, error) {
				if x.err != nil {
					return nil, x.err
				}
				return load(x.next), nil
			}, func(line string) { said = append(said, line) })
			if !slices.Equal(said, x.said) {
				t.Errorf("it says\n%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(x.said, "\n"))
			}
			anew := tr.hidden.anew.Load()
			if x.err != nil && got != old || (anew != nil) != (x.least != 0) || anew != nil && anew.Least != x.least {
				t.Errorf("settings %p of %p, filter %+v", got, old, anew)
			}
		})
	}
}

// A service reloads its settings on SIGHUP and continues, even if they are invalid. It notifies
// its manager of that and of its watchdog, and ends on SIGTERM.
func TestServiceReloads(t *testing.T) {
	testkit.HearHangups(t)
	b := newBench(t)
	file := filepath.Join(b.dir, "ingero.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("causes: {min-severity: LOW}\n")
	socket := filepath.Join(b.dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	loop := b.train()
	cmd := exec.Command("/proc/self/exe", "trace", "--pid", pid(loop), "--config", file)
	cmd.Env = append(b.env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=30000000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // without a terminal
	c := testkit.Start(t, cmd)
	hears(t, manager, "READY=1")
	state := b.tracing(1)
	for _, x := range []struct{ text, said string }{
		{"causes: {min-severity: HIGH}\n", "ingero: causes.min-severity is now HIGH"},
		{"causes: {min-severity: HUGE}\n", "ingero: the settings stay unchanged: " + file + ":1: causes.min-severity cannot be"},
		{"causes: {min-severity: HIGH}\ntrace: {stack: all}\n", "ingero: unchanged until a restart: trace.stack"},
	} {
		write(x.text)
		c.Signal(syscall.SIGHUP)
		c.Line(x.said)
		hears(t, manager, "RELOADING=1")
		hears(t, manager, "READY=1")
	}
	hears(t, manager, "WATCHDOG=1\nSTATUS=0 calls; processes that use CUDA: 1")
	if now := b.tracing(1); now.PID != state.PID {
		t.Errorf("process %d traces, it was %d", now.PID, state.PID)
	}
	c.Signal(syscall.SIGTERM)
	hears(t, manager, "STOPPING=1")
	if _, stderr, code := finish(t, c); code != 0 {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// hears waits until the manager receives a message.
func hears(t *testing.T, manager *net.UnixConn, want string) {
	t.Helper()
	if err := manager.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for {
		buf := make([]byte, 1024)
		n, err := manager.Read(buf)
		if err != nil {
			t.Fatalf("waiting for %q: %v", want, err)
		}
		if strings.HasPrefix(string(buf[:n]), want) {
			return
		}
	}
}

// Secrets in settings and variables are not shown.
func TestConfigShowHidesSecrets(t *testing.T) {
	env := map[string]string{
		"INGERO_NOTIFY": "https://me:" + secret + "@hooks.example.com/x/" + secret, "INGERO_OTLP": "https://h:4318/v1?token=" + secret,
		"INGERO_CLICKHOUSE": "http://u:" + secret + "@a:8123,http://b:8123", "INGERO_NODES": "http://" + secret + "@c:8080",
		"INGERO_TOKEN": secret, "INGERO_NOTIFY_SECRET": secret, "INGERO_KUBELET": "https://x:" + secret + "@127.0.0.1:10250",
	}
	e := &Env{Getenv: func(k string) string { return env[k] }}
	c, err := config.Load(config.Inputs{Getenv: e.Getenv, SystemFile: "/nowhere", Home: "/h"})
	if err != nil {
		t.Fatal(err)
	}
	lines := e.shownSettings(c, true)
	text := fmt.Sprint(lines)
	if strings.Contains(text, secret) || len(lines) != len(env) || !strings.Contains(text, "https://***@hooks.example.com/***") || !strings.Contains(text, "http://b:8123") {
		t.Errorf("%s", settingsTable(lines))
	}
}

// All errors are reported at once.
func TestConfigCheckTellsAll(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f.yaml")
	if err := os.WriteFile(file, []byte("trace:\n  stak: all\n  pid: x\ntoken-file: gone\nnode: a\nnode: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"INGERO_RECORD": "maybe"}
	files, problems := config.Check(config.Inputs{Getenv: func(k string) string { return env[k] }, Flags: map[string]string{"config": file},
		Caller: os.Getuid(), SystemFile: "/nowhere", Home: "/h"})
	var at []string
	for _, p := range problems {
		at = append(at, p.At+" "+p.Do)
	}
	want := []string{":2 did you mean trace.stack?", ":6 remove one of the two lines", ":3 trace these", "INGERO_RECORD record to", ":4 file that holds the bearer token"}
	if !slices.Equal(files, []string{file}) || len(at) != len(want) {
		t.Fatalf("files %v, problems %q", files, at)
	}
	for i := range want {
		if !strings.HasPrefix(strings.TrimPrefix(at[i], file), want[i]) {
			t.Errorf("%q, want %q", at[i], want[i])
		}
	}
	if !errors.Is(problems[4], os.ErrNotExist) {
		t.Errorf("%v", problems[4])
	}
}
