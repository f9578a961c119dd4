package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// launched is a program that is stopped before its first instruction.
type launched struct {
	cmd     *exec.Cmd
	start   chan struct{} // closed to let the program run
	ready   chan error    // nil once the program is stopped, or why it is not
	ended   chan struct{} // closed when the program has ended
	started bool
	signals chan os.Signal
}

// launch starts cmd and stops it at its exec, with ptrace, so that a tracer can attach before
// the first instruction. If this process dies, the program runs, even if it was stopped at a gate.
func launch(cmd *exec.Cmd) (*launched, error) {
	l := &launched{cmd: cmd, start: make(chan struct{}), ready: make(chan error), ended: make(chan struct{}), signals: make(chan os.Signal, 16)}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGCONT
	go l.trace()
	if err := <-l.ready; err != nil {
		<-l.ended
		return nil, err
	}
	return l, nil
}

// trace runs on the one thread that is the program's tracer: ptrace belongs to a thread, and so does
// the signal at the parent's death.
func (l *launched) trace() {
	defer close(l.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := l.cmd.Start(); err != nil {
		l.ready <- err
		return
	}
	pid := l.cmd.Process.Pid
	var ws syscall.WaitStatus
	if err := wait4(pid, &ws); err != nil || !ws.Stopped() {
		l.ready <- errors.Join(fmt.Errorf("process %d did not stop at exec (status %#x)", pid, int(ws)), err)
		return
	}
	// Also catch signals for the program that arrive while ingero attaches.
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2} {
		if s != unix.SIGHUP || !signal.Ignored(s) { // under nohup, both ignore it
			signal.Notify(l.signals, s)
		}
	}
	defer signal.Stop(l.signals)
	l.ready <- nil
	<-l.start
	if err := syscall.PtraceDetach(pid); err != nil && !errors.Is(err, syscall.ESRCH) {
		_ = l.cmd.Process.Kill()
	}
	stop := make(chan struct{})
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		l.forward(stop)
	}()
	_ = l.cmd.Wait() // the result is in cmd.ProcessState
	close(stop)
	<-forwarded
}

// forward forwards signals to the program until stop is closed. It skips signals that the
// terminal sends to the whole foreground group: the program already has them.
func (l *launched) forward(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case s := <-l.signals:
			typed := s == unix.SIGINT || s == unix.SIGQUIT
			if typed && foreground() {
				continue
			}
			_ = l.cmd.Process.Signal(s)
		}
	}
}

// foreground reports whether this process is in the foreground of a terminal.
func foreground() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer func() { _ = tty.Close() }()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func wait4(pid int, ws *syscall.WaitStatus) error {
	for {
		_, err := syscall.Wait4(pid, ws, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// pid returns the program's PID.
func (l *launched) pid() uint32 { return uint32(l.cmd.Process.Pid) }

// run lets the program run. Later calls do nothing.
func (l *launched) run() {
	if !l.started {
		l.started = true
		close(l.start)
	}
}

// kill kills the program, stopped or running, and waits for its end.
func (l *launched) kill() {
	_ = l.cmd.Process.Kill()
	l.run()
	<-l.ended
}

// exit waits for the program and returns its exit code, or 128 plus the number of the signal
// that ended it.
func (l *launched) exit() int {
	<-l.ended
	ws, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return exitFailed
	case ws.Signaled():
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// launchProblem explains why a program did not start, with a shell's exit codes.
func launchProblem(name string, err error) *problem {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return &problem{What: name + ": command not found", Do: "give its path, or add its directory to PATH", Code: exitNotFound, Err: err}
	case errors.Is(err, unix.EPERM) && scope() == "3":
		return &problem{What: name + ": kernel.yama.ptrace_scope is 3, so ingero cannot stop the program before its first call",
			Do: "start the program yourself, then run: ingero trace --pid PID", Code: exitCannot, Err: err}
	}
	return &problem{What: fmt.Sprintf("cannot start %s: %v", name, err), Do: "name a program that you are permitted to execute", Code: exitCannot, Err: err}
}

// scope returns Yama's ptrace_scope, "" without Yama.
func scope() string {
	text, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if err != nil || len(text) == 0 {
		return ""
	}
	return string(text[:1])
}
