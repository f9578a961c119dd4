package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ingero/internal/config"
	"ingero/internal/query"
	"ingero/internal/testkit"
	"ingero/internal/wire"
)

// A reader without room for a copy says where to make room, and does not mention recording.
func TestNoRoomToRead(t *testing.T) {
	p := problemOf(fmt.Errorf("/x.db: %w", &query.RoomError{Dir: "/small", Err: syscall.ENOSPC}))
	if !strings.Contains(p.What, "no room in /small") || !strings.Contains(p.Do, "TMPDIR") {
		t.Errorf("got %q, %q", p.What, p.Do)
	}
}

func TestFirstThere(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("b"), nil, 0o600), os.WriteFile(at("c"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for want, paths := range map[string][]string{"a": {"a"}, "b": {"a", "b", "c"}, "c": {"c", "b"}, "x": {"x", "y"}} {
		var all []string
		for _, p := range paths {
			all = append(all, at(p))
		}
		if got := firstExisting(all); got != at(want) {
			t.Errorf("of %q the first is %s, want %s", paths, got, want)
		}
	}
}

// The running trace's database comes first, if it is at a usual path and can be read.
func TestLiveDatabaseFirst(t *testing.T) {
	dir := t.TempDir()
	own, service := filepath.Join(dir, "own"), filepath.Join(dir, "service")
	absent := filepath.Join(dir, "absent")
	if err := errors.Join(os.WriteFile(own, nil, 0o600), os.WriteFile(service, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		usual      []string
		live, want string
	}{
		"no trace":      {[]string{own, service}, "", own},
		"a service":     {[]string{own, service}, service, service},
		"another path":  {[]string{own}, service, own},
		"not readable":  {[]string{own, absent}, absent, own},
		"nothing there": {[]string{absent}, "", absent},
	} {
		if got := liveOrExisting(tt.usual, tt.live); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// holder is a program that holds the lock like a trace with a database, until its input ends: `holder FILE`.
func holder() {
	l, err := lockOfTest().Acquire(wire.Holder{Since: time.Now(), Command: "ingero trace", DB: os.Args[1]})
	if err == nil {
		err = l.Publish(wire.TraceState{Updated: time.Now()})
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
	if err := l.Release(); err != nil {
		panic(err)
	}
}

// Readers take the running trace's database from its published state.
func TestDatabaseOfARunningTrace(t *testing.T) {
	home, state := t.TempDir(), filepath.Join(t.TempDir(), "ingero")
	own, service := filepath.Join(home, ".ingero", "ingero.db"), filepath.Join(state, "ingero.db")
	for _, path := range []string{own, service} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(config.Inputs{Home: home, Getenv: func(k string) string { return map[string]string{"STATE_DIRECTORY": state}[k] }})
	if err != nil {
		t.Fatal(err)
	}
	place, variable := testLock(t.TempDir())
	e := &Env{Lock: place}
	if got := e.databasePath(c); got != service {
		t.Errorf("without a trace: %s, want %s", got, service)
	}
	trace := exec.Command(exePath(t), own)
	trace.Args[0], trace.Env = "holder", append(os.Environ(), variable)
	testkit.Start(t, trace).Line("held")
	if got := e.databasePath(c); got != own {
		t.Errorf("with a trace: %s, want %s", got, own)
	}
}

// Without a trace, the user's own database takes precedence over a service's, a named one over both, and all
// commands report the database alike.
func TestReadersSayWhatTheyRead(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	own, named := filepath.Join(home, ".ingero", "ingero.db"), filepath.Join(dir, "named.db")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{own, named} {
		if err := recordFixture(path, "one", "gpu-7", began, 1); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"explain", "query", "top", "sql"} {
		for name, tt := range map[string]struct {
			args []string
			env  map[string]string
			want string
		}{
			"its own":  {nil, nil, own},
			"variable": {nil, map[string]string{"INGERO_DB": named}, named + " (INGERO_DB)"},
			"flag":     {[]string{"-d", named}, map[string]string{"INGERO_DB": "/nowhere.db"}, named},
		} {
			if container := (&Env{Getenv: func(string) string { return "" }}).inContainer(); container && name == "its own" {
				continue // the default differs in a container
			}
			t.Run(command+", "+name, func(t *testing.T) {
				stderr, stdout := temporary(t), temporary(t)
				null, err := os.Open(os.DevNull)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = null.Close() }()
				e := &Env{Lock: testPlace(t), Args: append([]string{command}, tt.args...), Stdin: null, Stdout: stdout, Stderr: stderr, Getenv: func(k string) string {
					if k == "HOME" {
						return home
					}
					return tt.env[k]
				}}
				code := e.run(t.Context())
				text, err := os.ReadFile(stderr.Name())
				if code != 0 || err != nil || string(text) != "Reading "+tt.want+"\n" {
					t.Errorf("code %d (%v), standard error %q, want that %s is read", code, err, text, tt.want)
				}
			})
		}
	}
}

func temporary(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// -d means the database in all commands that have one, and nothing else in any; flags for
// durations have no letter.
func TestShortFlags(t *testing.T) {
	named := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "db" {
				named++
			}
			if (f.Name == "db") != (f.Shorthand == "d") {
				t.Errorf("%s: --%s, -%s", c.CommandPath(), f.Name, f.Shorthand)
			}
			_, err := config.ParseDuration(f.DefValue)
			lasts := err == nil && strings.Trim(f.DefValue, "0123456789") != "" || strings.Contains(f.Usage, "1h30m")
			if lasts && f.Shorthand != "" {
				t.Errorf("%s: the duration --%s has the letter %s", c.CommandPath(), f.Name, f.Shorthand)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&Env{}).root())
	if named < 6 {
		t.Errorf("%d commands have --db", named)
	}
}
