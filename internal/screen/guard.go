package screen

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guard is a copy of this program that waits for its end, and restores the terminal if the program
// still holds it then. It has a session of its own, so that typed keys do not signal it.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File // lines of order, then the runtime's text of a crash
}

// guardName tells Enter that a process is to become a guard.
const guardName = "ingero-terminal"

// order is a line to the guard: the settings to restore, or none.
type order struct {
	Hold *unix.Termios `json:",omitempty"`
}

// Enter turns the process into a guard, if Open has started it as one; then it does not return.
// Call it first in main.
func Enter() {
	if len(os.Args) == 1 && os.Args[0] == guardName {
		stand(os.Stdin, os.Stdout)
		os.Exit(0)
	}
}

// startGuard starts a guard for the terminal out.
func startGuard(out *os.File) (*guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	g := &guard{cmd: &exec.Cmd{Path: "/proc/self/exe", Args: []string{guardName}, Dir: "/", Env: []string{"GOMAXPROCS=1"}, Stdin: r, Stdout: out,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}, pipe: w}
	if err := g.cmd.Start(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return g, nil
}

func (g *guard) send(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = g.pipe.Write(append(b, '\n'))
	return err
}

// hold makes the guard restore these settings if the program ends.
func (g *guard) hold(t *unix.Termios) error {
	if err := g.send(order{Hold: t}); err != nil {
		return err
	}
	return debug.SetCrashOutput(g.pipe, debug.CrashOptions{})
}

// free makes the guard leave the terminal alone.
func (g *guard) free() error {
	return errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}), g.send(order{}))
}

// end waits for the guard's end.
func (g *guard) end() error {
	err := g.pipe.Close()
	_ = g.cmd.Wait() // its exit status does not matter
	return err
}

// maxCrash bounds the text of a crash that is kept, in bytes.
const maxCrash = 256 << 10

// stand reads orders until the program has ended, and executes the last one.
func stand(orders io.Reader, out *os.File) {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTOU, unix.SIGPIPE)
	tty, err := reopen(out)
	if err != nil {
		return
	}
	text, o := follow(orders)
	if o.Hold == nil {
		return
	}
	_ = control(tty, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, o.Hold) })
	if tty.SetWriteDeadline(time.Now().Add(farewell)) == nil {
		_, _ = tty.Write(append([]byte(leave), text...))
	}
}

// follow returns the last order, and the text of a crash after it.
func follow(orders io.Reader) (crash []byte, last order) {
	buf := make([]byte, 4096)
	var held []byte
	for {
		n, err := orders.Read(buf)
		held = append(held, buf[:n]...)
		for {
			line, after, whole := bytes.Cut(held, []byte("\n"))
			var o order
			if !whole || !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &o) != nil {
				break
			}
			last, held = o, after
		}
		held = held[:min(len(held), maxCrash)]
		if err != nil {
			return held, last
		}
	}
}
