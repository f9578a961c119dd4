package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
)

func TestLaunchedProgramStandsStillUntilRun(t *testing.T) {
	testkit.LeakCheck(t)
	mark := filepath.Join(t.TempDir(), "ran")
	cmd := exec.Command("/bin/sh", "-c", "echo x > "+mark+"; exit 7")
	l, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	comm, ppid, err := ancestor(int(l.pid()))
	if err != nil || comm != "sh" || ppid != os.Getpid() {
		t.Errorf("before run: comm %q, parent %d, %v; want sh, a child of this process", comm, ppid, err)
	}
	if maps, err := os.ReadFile("/proc/" + strconv.Itoa(int(l.pid())) + "/maps"); err != nil || strings.Contains(string(maps), "libc.so") {
		t.Errorf("it has run as far as to map its libraries (%v):\n%s", err, maps)
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has run before run: %v", err)
	}
	l.run()
	if got := l.exit(); got != 7 {
		t.Errorf("exit code = %d, want 7", got)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
}

func TestLaunchedProgramEndedBySignal(t *testing.T) {
	testkit.HearHangups(t)
	for name, tt := range map[string]struct {
		end  func(l *launched)
		want int
	}{
		"killed while it stands":   {func(l *launched) { l.kill() }, 128 + 9},
		"terminated once it runs":  {func(l *launched) { l.run(); _ = l.cmd.Process.Signal(syscall.SIGTERM) }, 128 + 15},
		"signal while it stands":   {func(l *launched) { l.signals <- syscall.SIGTERM; l.run() }, 128 + 15},
		"signal passed on running": {func(l *launched) { l.run(); l.signals <- syscall.SIGHUP }, 128 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.LeakCheck(t)
			l, err := launch(exec.Command("/bin/sh", "-c", "while :; do sleep 60; done"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.kill)
			tt.end(l)
			if got := l.exit(); got != tt.want {
				t.Errorf("exit code = %d, want %d", got, tt.want)
			}
		})
	}
}

// Under nohup, neither ingero nor the program that it starts ends with the terminal.
func TestRunUnderNohup(t *testing.T) {
	b := newBench(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" "$@"`, self, "run", "--record=false", "--", "sh", "-c", "kill -HUP $PPID; kill -HUP $$; exit 7")
	cmd.Env = b.env
	if _, stderr, code := finish(t, testkit.Start(t, cmd)); code != 7 {
		t.Errorf("exit code = %d, want 7: %s", code, stderr)
	}
}

func TestLaunchSaysWhyNot(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		path string
		code int
		want string
	}{
		"no such command": {"no-such-command-anywhere", exitNotFound, "command not found"},
		"no such file":    {filepath.Join(dir, "absent"), exitNotFound, "command not found"},
		"no program":      {text, exitCannot, "cannot start"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.LeakCheck(t)
			l, err := launch(exec.Command(tt.path))
			if err == nil {
				l.kill()
				t.Fatal("it started")
			}
			p := launchProblem(tt.path, err)
			if p.Code != tt.code || !strings.Contains(p.What, tt.want) || p.Do == "" {
				t.Errorf("problem = %+v (from %v), want %q, code %d", p, err, tt.want, tt.code)
			}
		})
	}
}

func TestEnvironmentOfTheInvoker(t *testing.T) {
	w := invoker{UID: 1000, Name: "ann", Home: "/home/ann", Sudo: true}
	own := []string{"PATH=/root/bin", "HOME=/root", "USER=root", "SUDO_UID=1000", "SUDO_COMMAND=x", "LANG=C", "BATCH=8", "TERM=xterm"}
	for name, tt := range map[string]struct {
		before, want []string
	}{
		"sudo's environment known": {
			before: []string{"PATH=/home/ann/venv/bin", "HOME=/home/ann", "USER=ann", "VIRTUAL_ENV=/home/ann/venv", "LD_LIBRARY_PATH=/opt/cuda", "BATCH=4", "SHELL=/bin/zsh"},
			want: []string{"BATCH=8", "HOME=/home/ann", "LANG=C", "LD_LIBRARY_PATH=/opt/cuda", "LOGNAME=ann",
				"PATH=/home/ann/venv/bin", "SHELL=/bin/zsh", "TERM=xterm", "USER=ann", "VIRTUAL_ENV=/home/ann/venv"},
		},
		"not known": {
			want: []string{"BATCH=8", "HOME=/home/ann", "LANG=C", "LOGNAME=ann", "PATH=/root/bin", "TERM=xterm", "USER=ann"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, w.environment(own, tt.before)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(own, invoker{}.environment(own, nil)); diff != "" {
		t.Errorf("without sudo the environment changes (-want +got):\n%s", diff)
	}
}

func TestReport(t *testing.T) {
	var b bytes.Buffer
	code := report(&b, &problem{What: "pid 7\nended", Do: "do this", Code: exitUsage}, false)
	if got, want := b.String(), "ingero: pid 7; ended\n        do this\n"; got != want || code != exitUsage {
		t.Errorf("got %q, code %d, want %q, code 2", got, code, want)
	}
}
