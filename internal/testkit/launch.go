package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// Launch starts cmd so that it ends with the test process, even on a time-out, a panic or SIGKILL.
// The kernel sends the program SIGKILL then. If the program has a process group or session of its
// own, the rest of its group is killed too. The caller waits for cmd, and calls Disown after the
// group has ended.
func Launch(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	launcher() <- func() { started <- cmd.Start() }
	err := <-started
	if err == nil && leads(cmd) {
		keeper().send('+', cmd.Process.Pid)
	}
	return err
}

// HearHangups lets the programs that the test starts receive SIGHUP, also under nohup: a new program
// ignores what its parent ignores, but does not inherit a handler.
func HearHangups(t testing.TB) {
	t.Helper()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
}

// Disown records that the process group of a launched program has ended, since its number may be
// reused.
func Disown(cmd *exec.Cmd) {
	if leads(cmd) {
		keeper().send('-', cmd.Process.Pid)
	}
}

// leads reports whether a program has a process group of its own.
func leads(cmd *exec.Cmd) bool { return cmd.SysProcAttr.Setpgid || cmd.SysProcAttr.Setsid }

// launcher returns a channel for functions that start a program. They run on one OS thread that
// lives as long as the process. The kernel sends a child its Pdeathsig when the starting thread
// ends, and Go may end any other thread.
var launcher = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range jobs {
			start()
		}
	}()
	return jobs
})

// groupKeeper kills the remaining process groups when the test process has ended, which closes its
// standard input. The kernel does that only for the first process of a group.
type groupKeeper struct {
	mu sync.Mutex
	to *os.File
}

// keepGroups reads "+ GROUP" and "- GROUP".
const keepGroups = `groups=' '
while read -r sign group; do
	case $sign in
	+) groups="$groups$group " ;;
	-) groups="${groups%% $group *} ${groups#* $group }" ;;
	esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done`

var keeper = sync.OnceValue(func() *groupKeeper {
	read, write, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command("sh", "-c", keepGroups)
	cmd.Stdin, cmd.Dir = read, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	_ = read.Close()
	return &groupKeeper{to: write}
})

func (k *groupKeeper) send(sign byte, group int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := fmt.Fprintf(k.to, "%c %d\n", sign, group); err != nil {
		panic(err)
	}
}

// WaitAsleep makes programs of the simulated stack wait for the GPU without a CPU, unless
// INGERO_SIM_SYNC says otherwise: many tests share a machine. Call it before any test runs.
func WaitAsleep() {
	if os.Getenv("INGERO_SIM_SYNC") == "" {
		_ = os.Setenv("INGERO_SIM_SYNC", "block")
	}
}
