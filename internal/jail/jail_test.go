package jail_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/jail"
	"ingero/internal/testkit"
)

func TestMain(m *testing.M) {
	jail.Enter()
	os.Exit(m.Run())
}

// start runs a program in a jail, a shell by default.
func start(t *testing.T, p jail.Program) *jail.Jailed {
	t.Helper()
	testkit.NeedRoot(t)
	open := func(path string) *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	if p.Image == nil {
		p.Image = open("/usr/bin/sh")
	}
	if p.Time == 0 {
		p.Time = time.Minute
	}
	p.Root = open("/")
	j, err := jail.Start(&p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.End() })
	return j
}

// shell returns the arguments that run a script.
func shell(script string) []string { return []string{"sh", "-c", script} }

// status returns a script that prints lines of the shell's status, by pattern.
func status(keys string) string {
	return "while read -r key values; do case $key in " + keys + ") echo $key $values;; esac; done </proc/self/status"
}

// said returns all lines of output.
func said(t *testing.T, j *jail.Jailed) []string {
	t.Helper()
	var out []string
	for {
		l, err := j.Line()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
}

// The program runs as another user without privileges.
func TestWhatIsGivenUp(t *testing.T) {
	got := said(t, start(t, jail.Program{UID: 4242, GID: 4243, Env: []string{"ONLY=this"},
		Args: shell(status("Uid:|Gid:|Groups:|Cap*:|NoNewPrivs:|Seccomp:") + "; echo ONLY=$ONLY HOME=${HOME-none}")}))
	const none = "0000000000000000"
	want := []string{"Uid: 4242 4242 4242 4242", "Gid: 4243 4243 4243 4243", "Groups:", "CapInh: " + none, "CapPrm: " + none,
		"CapEff: " + none, "CapBnd: " + none, "CapAmb: " + none, "NoNewPrivs: 1", "Seccomp: 2", "ONLY=this HOME=none"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Root in the jail has no capabilities.
func TestRootWithoutCapabilities(t *testing.T) {
	j := start(t, jail.Program{Args: shell(status("Uid:|CapEff:") + "; read x </proc/1/mem")})
	if diff := cmp.Diff([]string{"Uid: 0 0 0 0", "CapEff: 0000000000000000"}, said(t, j)); diff != "" {
		t.Error(diff)
	}
	if words := j.End(); !strings.Contains(words, "/proc/1/mem: ") {
		t.Errorf("it could read another's memory: %q", words)
	}
}

// The program can reach nobody: by network, signal or file.
func TestNobodyIsReached(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "jail")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	got := said(t, start(t, jail.Program{UID: 4242, GID: 4242, Args: shell(fmt.Sprintf(
		`while read -r name rest; do case $name in *:*) echo ${name%%%%:*};; esac; done </proc/net/dev; kill -0 %d && echo reached; echo made > %s/file; echo written > %s/file`, os.Getpid(), dir, dir))}))
	if diff := cmp.Diff([]string{"lo"}, got); diff != "" {
		t.Error(diff)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || len(b) > 0 {
		t.Errorf("the file could not be made (%v), or has %q", err, b)
	}
}

// The program is killed when its time is over, whatever it does.
func TestTimeIsOver(t *testing.T) {
	for name, script := range map[string]string{"busy": "while :; do :; done", "waits": "trap '' TERM INT HUP; exec /usr/bin/sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// If a shell takes longer than a second to begin, the limit doubles.
			for limit, begun := time.Second, false; !begun; limit *= 2 {
				j := start(t, jail.Program{UID: 4242, GID: 4242, Time: limit, Args: shell("echo begun; " + script)})
				got := said(t, j)
				if begun = slices.Equal(got, []string{"begun"}); !begun && (len(got) > 0 || limit > time.Minute) {
					t.Fatalf("got %q in %v", got, limit)
				}
				j.End()
				if _, err := os.Stat(fmt.Sprintf("/proc/%d", j.PID)); !os.IsNotExist(err) {
					t.Errorf("it is still there: %v", err)
				}
			}
		})
	}
}

// The program can start threads, but no processes.
func TestNoProcesses(t *testing.T) {
	testkit.NeedRoot(t)
	python, err := os.Open(testkit.NeedPython(t, testkit.PythonVersion(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = python.Close() })
	script := func(what string) []string {
		return []string{python.Name(), "-I", "-S", "-c", "import os, threading\ntry:\n " + what + "\nexcept OSError as e: print(e.strerror)\nelse: print('started')"}
	}
	const refused, started = "Operation not permitted", "started"
	for name, tt := range map[string]struct {
		image *os.File
		args  []string
		want  []string
	}{
		"shell":  {nil, shell("/usr/bin/true; echo " + started), nil},
		"fork":   {python, script("os.fork() or os._exit(0)"), []string{refused}},
		"spawn":  {python, script("os.posix_spawn('/usr/bin/true', ['true'], {})"), []string{refused}},
		"thread": {python, script("t = threading.Thread(target=print, args=('ran',)); t.start(); t.join()"), []string{"ran", started}},
	} {
		t.Run(name, func(t *testing.T) {
			j := start(t, jail.Program{Image: tt.image, UID: 4242, GID: 4242, Args: tt.args})
			got := said(t, j)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, j.End())
			}
		})
	}
}

// The output is bounded, too.
func TestTooMuchIsSaid(t *testing.T) {
	n := 0
	for _, l := range said(t, start(t, jail.Program{UID: 4242, Args: shell("while :; do echo " + strings.Repeat("a", 1000) + "; done")})) {
		n += len(l)
	}
	if n == 0 || n > 1<<20 {
		t.Errorf("%d bytes", n)
	}
}

func TestNoProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	j := start(t, jail.Program{Image: f, UID: 1, GID: 1, Args: []string{"x"}})
	if got := said(t, j); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	if words := j.End(); !strings.Contains(words, "execute: exec format error") {
		t.Errorf("got %q", words)
	}
}
