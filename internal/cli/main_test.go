package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"ingero/internal/govern"
	"ingero/internal/lock"
	"ingero/internal/screen"
	"ingero/internal/testkit"
	"ingero/sim"
)

// Variables that turn the test binary into a program of the tests.
const (
	asIngero = "CLI_TEST_INGERO" // the lock: directory:mark
	asSudo   = "CLI_TEST_SUDO"   // run the arguments and wait
	keyFile  = "CLI_TEST_KEY"    // of ingero: file of the dashboard's key
	clockOff = "CLI_TEST_CLOCK"  // of ingero: offset of its clock, ahead

	withLoopback = "CLI_TEST_LOOPBACK" // of ingero: first set the loopback interface up
	forcedSteps  = "CLI_TEST_FORCED"   // of ingero: names of steps that its trace always sheds
)

// TestMain runs the test binary as ingero, or as a program named sudo, if a variable says so.
func TestMain(m *testing.M) {
	screen.Enter()
	if os.Getenv(asSudo) != "" {
		sudo()
		return
	}
	if filepath.Base(os.Args[0]) == hogName { // demo incident starts this program under that name
		os.Exit(Main(Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}))
	}
	programs := map[string]func(){"paced": paced, "ingero": ingero, "record": record, "placed": placed, "incident": incident, "holder": holder}
	if os.Getenv(asIngero) != "" && programs[filepath.Base(os.Args[0])] == nil {
		ingero()
	}
	testkit.WaitAsleep()
	testscript.Main(m, programs)
}

// ingero runs the program with a lock of the test.
func ingero() {
	e := Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
		Build: Build{Version: "v1.2.3", Commit: "abc", Date: "2026-01-02"}}
	e.Lock = lockOfTest()
	if os.Getenv(withLoopback) != "" {
		if err := testkit.LoopbackUp(); err != nil {
			panic(err)
		}
	}
	if os.Geteuid() == 0 { // else this program may have to re-execute itself
		_ = os.Unsetenv(asIngero)
	}
	e.keyFile = os.Getenv(keyFile)
	if ahead, err := time.ParseDuration(os.Getenv(clockOff)); err == nil {
		e.Now = func() time.Time { return time.Now().Add(ahead) }
	}
	for name := range strings.FieldsSeq(os.Getenv(forcedSteps)) {
		e.forced = append(e.forced, govern.StepNamed(name))
	}
	os.Exit(Main(e))
}

// lockOfTest returns the lock that the variable of [testLock] names.
func lockOfTest() (p lock.Place) {
	dir, mark, _ := strings.Cut(os.Getenv(asIngero), ":")
	p.Dirs = []string{dir}
	if _, err := fmt.Sscan(mark, &p.Mark); err != nil {
		panic(err)
	}
	return p
}

// sudo runs its arguments as sudo does: with an environment other than the caller's.
func sudo() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/root", "USER=root", "SUDO_UID=12345", "SUDO_GID=12345", "SUDO_USER=ann",
		asIngero + "=" + os.Getenv(asIngero)}
	if err := cmd.Run(); err != nil {
		os.Exit(cmd.ProcessState.ExitCode())
	}
}

// testLock creates a lock that no other test and no real trace uses.
func testLock(dir string) (p lock.Place, variable string) {
	p = lock.Place{Dirs: []string{dir}, Mark: 1<<41 + int64(os.Getpid())<<20 + time.Now().UnixNano()%(1<<20)}
	return p, fmt.Sprintf("%s=%s:%d", asIngero, dir, p.Mark)
}

func testPlace(t *testing.T) lock.Place {
	p, _ := testLock(t.TempDir())
	return p
}

// scripts runs the scripts of a directory; $SIM is the simulated stack.
func scripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		UpdateScripts:       testkit.Updating(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                recordings,
		Setup: func(env *testscript.Env) error {
			_, variable := testLock(env.WorkDir)
			stack, err := sim.Extract(filepath.Join(env.WorkDir, "sim"))
			env.Vars = append(env.Vars, variable, "SIM="+stack.Dir, "TZ=UTC", "INGERO_DB="+filepath.Join(env.WorkDir, "ingero.db"))
			return err
		},
	})
}

func TestScripts(t *testing.T) { scripts(t, "testdata/script") }

func TestLiveScripts(t *testing.T) {
	testkit.NeedBPF(t)
	scripts(t, "testdata/live")
}

// The command reference is up to date.
func TestDocs(t *testing.T) {
	const path = "../../docs/reference/commands.md"
	var got bytes.Buffer
	if err := Docs(&got); err != nil {
		t.Fatal(err)
	}
	if testkit.Updating() {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s is out of date; go test ./internal/cli -run TestDocs -update (-want +got):\n%s", path, diff)
	}
}
