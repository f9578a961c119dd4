package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// world is a machine with a system file, a current directory and a named file.
type world struct {
	t     *testing.T
	in    Inputs
	named string
	env   map[string]string
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{t: t, named: filepath.Join(dir, "named.yaml"), env: map[string]string{}}
	w.in = Inputs{
		Getenv: func(k string) string { return w.env[k] }, Flags: map[string]string{},
		UID: 1000, Caller: os.Getuid(), Home: "/home/bob", Cwd: filepath.Join(dir, "cwd"), Hostname: "gpu-7",
		SystemFile: filepath.Join(dir, "etc", "ingero.yaml"),
	}
	return w
}

func (w *world) write(path, text string) string {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) load() *Config {
	w.t.Helper()
	c, err := Load(w.in)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// refused calls Load and returns its error, which must exist.
func (w *world) refused() *Error {
	w.t.Helper()
	c, err := Load(w.in)
	var e *Error
	if !errors.As(err, &e) {
		w.t.Fatalf("Load = %+v, %v, want an *Error", c, err)
	}
	return e
}

func (w *world) local() string { return filepath.Join(w.in.Cwd, localFile) }

func TestDefaults(t *testing.T) {
	got := newWorld(t).load()
	want := &Config{DB: "/home/bob/.ingero/ingero.db", Node: "gpu-7", UpdateCheck: true, From: map[string]string{},
		Trace:  Trace{Cmdline: "safe", Record: true, MaxDB: 10 << 30, MaxOverhead: 0.02, Stack: "slow", Requests: "servers", PyWalker: "auto", LabelSocket: "auto", LabelSenders: "owner", Link: "auto", Inference: Inference{Metrics: "on"}, OTLP: OTLP{Traces: "notable", Protocol: "auto"}},
		Causes: Causes{MinSeverity: "LOW"}, Serve: Serve{Addr: ":8080", TestReport: "report.json"}, Fleet: Fleet{Timeout: 15 * time.Second, Skew: 10 * time.Millisecond}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestDefaultDB(t *testing.T) {
	const service = "/var/lib/ingero/ingero.db"
	const own = "/home/bob/.ingero/ingero.db"
	for _, tt := range []struct {
		name, home string
		container  bool
		state      string // STATE_DIRECTORY
		named      string
		want       []string
	}{
		{name: "a person", home: "/home/bob", want: []string{own, service}},
		{name: "a container", home: "/root", container: true, want: []string{service, "/root/.ingero/ingero.db"}},
		{name: "nobody's", want: []string{service}},
		{name: "a service", home: "/home/bob", state: "/srv/ingero", want: []string{"/srv/ingero/ingero.db", own, service}},
		{name: "a service with two directories", home: "/home/bob", state: "/a/ingero:/b", want: []string{"/a/ingero/ingero.db", own, service}},
		{name: "another service", home: "/home/bob", state: "/var/lib/x", want: []string{own, service}},
		{name: "a relative directory", home: "/home/bob", state: "ingero", want: []string{own, service}},
		{name: "named", home: "/home/bob", state: "/srv/ingero", named: "/x.db", want: []string{"/x.db"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.in.Home, w.in.Container = tt.home, tt.container
			w.env["INGERO_DB"], w.env["STATE_DIRECTORY"] = tt.named, tt.state
			c := w.load()
			if diff := cmp.Diff(tt.want, c.Databases()); diff != "" || c.DB != tt.want[0] {
				t.Errorf("DB = %s, readers look there (-want +got):\n%s", c.DB, diff)
			}
		})
	}
}

// samples has two values of each kind, in the form that a Config shows.
var samples = map[string][2]string{
	"path": {"/a/b", "/c/d"}, "paths": {"/a/x.so:/y.so", "/b.so"}, "percent": {"5%", "50%"}, "text": {"alice", "bob"}, "address": {":9090", "0.0.0.0:9091"}, "bool": {"true", "false"}, "number": {"3", "4"},
	"duration": {"1m30s", "2h"}, "size": {"16m", "32m"}, "pids": {"4821", "4822"},
	"words": {"a:8080,http://b:8080", "c:8080"},
}

func sample(s *Setting, layer int) string {
	if len(s.Choices) > 0 {
		return s.Choices[layer%2]
	}
	return samples[s.Kind()][layer%2]
}

// Each layer overrides the one below it. Each setting gets two values in turns, layer by layer.
func TestLayers(t *testing.T) {
	for i := range Settings {
		s := &Settings[i]
		if s.Key == configKey {
			continue
		}
		t.Run(s.Key, func(t *testing.T) {
			w := newWorld(t)
			nested := func(value string) string {
				if head, last, ok := strings.Cut(s.Key, "."); ok {
					return fmt.Sprintf("%s:\n  %s: %s\n", head, last, value)
				}
				return fmt.Sprintf("%s: %s\n", s.Key, value)
			}
			line := 1 + strings.Count(s.Key, ".")
			for layer, add := range []func(value string) (from string){
				func(v string) string { return fmt.Sprintf("%s:%d", w.write(w.in.SystemFile, nested(v)), line) },
				func(v string) string { return fmt.Sprintf("%s:%d", w.write(w.local(), nested(v)), line) },
				func(v string) string {
					w.env["INGERO_CONFIG"] = w.named
					return fmt.Sprintf("%s:%d", w.write(w.named, nested(v)), line)
				},
				func(v string) string { w.env[s.Env] = v; return s.Env },
				func(v string) string { w.in.Flags[s.Flag] = v; return "--" + s.Flag },
			} {
				if layer == 4 && s.Flag == "" {
					continue
				}
				want := sample(s, layer)
				from := add(want)
				c := w.load()
				if got := s.text(c); got != want || c.From[s.Key] != from {
					t.Errorf("layer %d: %q from %s, want %q from %s", layer, got, c.From[s.Key], want, from)
				}
			}
		})
	}
}

func TestConfigFlagOutranksVariable(t *testing.T) {
	w := newWorld(t)
	w.env["INGERO_CONFIG"] = "/nowhere/at/all.yaml"
	w.in.Flags["config"] = w.write(w.named, "node: named\n")
	if got := w.load().Node; got != "named" {
		t.Errorf("Node = %q, want that of --config", got)
	}
}

func TestNamedFileMustExist(t *testing.T) {
	w := newWorld(t)
	w.in.Flags["config"] = w.named
	if e := w.refused(); e.At != w.named || !errors.Is(e, os.ErrNotExist) || e.Do == "" {
		t.Errorf("error = %v", e)
	}
}

// Root does not read the config file of the current directory.
func TestRootLeavesLocalFile(t *testing.T) {
	w := newWorld(t)
	w.in.UID = 0
	if got := w.load().Unread; got != "" {
		t.Errorf("%q is not read, and is not there", got)
	}
	w.write(w.local(), "node: local\n")
	if c := w.load(); c.Node != "gpu-7" || c.Unread != w.local() {
		t.Errorf("Node = %q and unread is %q, want that the local file is left alone and reported", c.Node, c.Unread)
	}
	w.in.Flags["config"] = w.local()
	if c := w.load(); c.Node != "local" || c.Unread != "" {
		t.Errorf("Node = %q and unread is %q, want that of the file, which --config names now", c.Node, c.Unread)
	}
}

// A program that sudo -u starts in a directory that its user may not enter, such as /root, has no
// local file.
func TestClosedDirectory(t *testing.T) {
	w := newWorld(t)
	w.in.SystemFile = "/nonexistent/ingero.yaml"
	w.write(w.local(), "db: /data/x.db\n")
	if err := os.Chmod(w.in.Cwd, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(w.in.Cwd, 0o700) })
	if os.Geteuid() == 0 { // root may enter any directory
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Setfsuid(0) }()
	}
	if c := w.load(); c.DB == "/data/x.db" {
		t.Error("it reads the local file of a closed directory")
	}
}

func TestOwners(t *testing.T) {
	testkit.NeedRoot(t) // to change owners
	const bob, eve = 4242, 6666
	for _, tt := range []struct {
		name        string
		uid, caller int
		owner       int
		mode        os.FileMode
		what, do    string
	}{
		{name: "root's, for root", owner: 0, mode: 0o644},
		{name: "root's, for bob", uid: bob, caller: bob, owner: 0, mode: 0o644},
		{name: "bob's, for bob", uid: bob, caller: bob, owner: bob, mode: 0o664},
		{name: "bob's, for bob with sudo", caller: bob, owner: bob, mode: 0o600},
		{name: "eve's, for bob with sudo", caller: bob, owner: eve, mode: 0o644, what: "belongs to user 6666", do: "sudo chown root"},
		{name: "bob's, for root", owner: bob, mode: 0o644, what: "belongs to user 4242", do: "sudo chown root"},
		{name: "eve's, for bob", uid: bob, caller: bob, owner: eve, mode: 0o644, what: "belongs to user 6666", do: "sudo chown root"},
		{name: "anybody may write", owner: 0, mode: 0o646, what: "every user may write", do: "chmod o-w"},
		{name: "anybody may write bob's", caller: bob, owner: bob, mode: 0o602, what: "every user may write", do: "chmod o-w"},
	} {
		for _, how := range []string{"system", "named", "link"} {
			t.Run(tt.name+", "+how, func(t *testing.T) {
				w := newWorld(t)
				w.in.UID, w.in.Caller = tt.uid, tt.caller
				path := w.write(w.named, "node: x\n")
				if err := errors.Join(os.Chown(path, tt.owner, 0), os.Chmod(path, tt.mode)); err != nil {
					t.Fatal(err)
				}
				switch how {
				case "system":
					w.in.SystemFile = path
				case "named":
					w.in.Flags["config"] = path
				case "link": // the link belongs to root, its target may not
					link := filepath.Join(t.TempDir(), "link.yaml")
					if err := os.Symlink(path, link); err != nil {
						t.Fatal(err)
					}
					path, w.in.Flags["config"] = link, link
				}
				if tt.what == "" {
					if got := w.load().Node; got != "x" {
						t.Errorf("Node = %q", got)
					}
					return
				}
				if e := w.refused(); e.At != path || !strings.Contains(e.What, tt.what) || e.Do != tt.do+" "+path {
					t.Errorf("error at %s: %s / %s", e.At, e.What, e.Do)
				}
			})
		}
	}
}

func TestFlagTakesBackLowerLayer(t *testing.T) {
	w := newWorld(t)
	w.env["INGERO_USER"] = "bob"
	w.in.Flags["pid"] = "7"
	c := w.load()
	if c.Trace.User != "" || len(c.Trace.PIDs) != 1 || c.From["trace.user"] != "" {
		t.Errorf("user %q, PIDs %v, want the PIDs alone", c.Trace.User, c.Trace.PIDs)
	}
	w = newWorld(t)
	w.env["INGERO_PID"] = "7"
	w.in.Flags["user"] = "bob"
	if c := w.load(); c.Trace.User != "bob" || c.Trace.PIDs != nil {
		t.Errorf("user %q, PIDs %v, want the user alone", c.Trace.User, c.Trace.PIDs)
	}
	w.in.Flags["pid"] = "7"
	if e := w.refused(); !strings.Contains(e.What, "cannot be combined") {
		t.Errorf("error = %v", e)
	}
}

func TestPathsStartWhereTheyAreGiven(t *testing.T) {
	w := newWorld(t)
	w.write(w.in.SystemFile, "db: x.db\n")
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"file", func() {}, filepath.Join(filepath.Dir(w.in.SystemFile), "x.db")},
		{"variable", func() { w.env["INGERO_DB"] = "y/../x.db" }, filepath.Join(w.in.Cwd, "x.db")},
		{"flag", func() { w.in.Flags["db"] = "~/x.db" }, "/home/bob/x.db"},
	} {
		step.do()
		if got := w.load().DB; got != step.want {
			t.Errorf("%s: DB = %s, want %s", step.name, got, step.want)
		}
	}
}

func TestBadValues(t *testing.T) {
	for _, tt := range []struct{ flag, value, what string }{
		{"ringbuf-size", "5000", "power of two"}, {"ringbuf-size", "2048", "power of two"}, {"ringbuf-size", "2g", "power of two"},
		{"ringbuf-size", "-8m", "a size"}, {"ringbuf-size", "9999999999t", "a size"},
		{"sampling-rate", "-1", "from 0"}, {"max-threads", "2000000", "from 0 to 1048576"}, {"sampling-rate", "1e3", "whole number"},
		{"duration", "60", "a duration"}, {"duration", "-1s", "a duration"}, {"duration", "300000w", "292 years"},
		{"pid", "1,x", "PIDs"}, {"pid", "0", "PIDs"}, {"pid", "4294967297", "PIDs"},
		{"record", "maybe", "true or false"}, {"link", "kprobe", "one of auto"},
		{"node", "a:b", "colon"}, {"node", strings.Repeat("x", 254), "253"}, {"node", "a\x1b[2J", "control"},
		{"db", "a\x00b", "NUL"},
	} {
		t.Run(tt.flag+"="+tt.value[:min(20, len(tt.value))], func(t *testing.T) {
			w := newWorld(t)
			w.in.Flags[tt.flag] = tt.value
			if e := w.refused(); e.At != "--"+tt.flag || !strings.Contains(e.What, tt.what) || e.Do == "" {
				t.Errorf("error = %q at %s (%s), want %q", e.What, e.At, e.Do, tt.what)
			}
		})
	}
}
