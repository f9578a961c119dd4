package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Launch starts cmd so that it ends with the test process, however that ends: by a
// time-out, a panic or SIGKILL. The program itself gets SIGKILL from the kernel. Where it
// has a process group or a session of its own, the rest of its group is killed too.
// The caller waits for cmd and calls Disown once the group has ended.
func Launch(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	launcher() <- func() { started <- cmd.Start() }
	err := <-started
	if err == nil && leads(cmd) {
		keeper().say('+', cmd.Process.Pid)
	}
	return err
}

// Disown tells that the process group of a program that Launch started has ended: another
// group may get its number.
func Disown(cmd *exec.Cmd) {
	if leads(cmd) {
		keeper().say('-', cmd.Process.Pid)
	}
}

// leads reports whether a program has a process group of its own.
func leads(cmd *exec.Cmd) bool { return cmd.SysProcAttr.Setpgid || cmd.SysProcAttr.Setsid }

// launcher returns where to send what starts a program. It all runs on one OS thread that
// lives as long as the process: the kernel sends a child its Pdeathsig when the thread that
// started the child ends, and Go may end any other thread.
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

// groupKeeper kills the process groups that are left when the test process has ended: its
// standard input ends then. The kernel does that for the first process of a group only.
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

func (k *groupKeeper) say(sign byte, group int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := fmt.Fprintf(k.to, "%c %d\n", sign, group); err != nil {
		panic(err)
	}
}
