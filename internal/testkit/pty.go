package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal for the length of a test, with its user.
type Terminal struct {
	Side *os.File // the program's side: its standard input and output

	t       testing.TB
	control *os.File
	reading sync.Mutex // held while the program's output is read

	mu    sync.Mutex
	text  string
	glass Screen
	more  chan struct{} // has a value when there is more text
	read  chan struct{} // closed at the end of the output
}

// NewTerminal opens a terminal of 100 columns and 40 lines.
func NewTerminal(t testing.TB) *Terminal {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	x := &Terminal{t: t, control: control, more: make(chan struct{}, 1), read: make(chan struct{})}
	x.ioctl(func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	x.Resize(100, 40)
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x.Side = side
	go x.follow()
	t.Cleanup(func() {
		_ = side.Close() // the last of its side: the other one reads the end
		<-x.read
		_ = control.Close()
	})
	return x
}

// ioctl calls f with the descriptor, which stays non-blocking.
func (x *Terminal) ioctl(f func(fd int) error) {
	x.t.Helper()
	c, err := x.control.SyscallConn()
	if err != nil {
		x.t.Fatal(err)
	}
	var failed error
	if err := errors.Join(c.Control(func(fd uintptr) { failed = f(int(fd)) }), failed); err != nil {
		x.t.Fatal(err)
	}
}

func (x *Terminal) follow() {
	defer close(x.read)
	b := make([]byte, 4096)
	for {
		x.reading.Lock()
		n, err := x.control.Read(b)
		x.reading.Unlock()
		x.mu.Lock()
		x.text += string(b[:n])
		_, _ = x.glass.Write(b[:n])
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Type types a text.
func (x *Terminal) Type(text string) {
	x.t.Helper()
	if _, err := x.control.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// Until waits until the program has written a text. It returns and discards everything up to it.
func (x *Terminal) Until(text string) string {
	x.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		x.mu.Lock()
		before, after, found := strings.Cut(x.text, text)
		if found {
			x.text = after
		}
		x.mu.Unlock()
		if found {
			return before
		}
		select {
		case <-x.more:
		case <-late.C:
			x.t.Fatalf("the terminal shows %q, not %q", before, text)
		}
	}
}

// Start runs a program with the terminal as its controlling one, as a shell does. The program is
// killed when the test ends; ended is closed when it has ended.
func (x *Terminal) Start(cmd *exec.Cmd) (ended <-chan struct{}) {
	x.t.Helper()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.Side, x.Side, x.Side
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := Launch(cmd); err != nil {
		x.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // cmd.ProcessState has the result
	}()
	x.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		Disown(cmd)
	})
	return done
}

// Hang closes the terminal, as when its window is closed.
func (x *Terminal) Hang() {
	x.t.Helper()
	if err := errors.Join(x.control.SetReadDeadline(time.Unix(1, 0)), x.Side.Close()); err != nil {
		x.t.Fatal(err)
	}
	<-x.read
	if err := x.control.Close(); err != nil {
		x.t.Fatal(err)
	}
}

// Shows waits until the screen shows a text, and returns the screen.
func (x *Terminal) Shows(text string) string { return x.Look(text, true) }

// Look waits until the screen shows a text, or no longer shows it, and returns the screen.
func (x *Terminal) Look(text string, there bool) (shown string) {
	x.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		x.mu.Lock()
		shown = x.glass.Text()
		x.mu.Unlock()
		if strings.Contains(shown, text) == there {
			return shown
		}
		select {
		case <-x.more:
		case <-late.C:
			x.t.Fatalf("the screen shows %q: %v, it should be %v:\n%s", text, !there, there, shown)
		}
	}
}

// Screen returns the present content of the screen.
func (x *Terminal) Screen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.glass.Text()
}

// Seen returns the raw output since the last Until.
func (x *Terminal) Seen() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text
}

// Other reports whether the alternate screen is shown, as full-screen programs use it.
func (x *Terminal) Other() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.glass.Other()
}

// Resize changes the window's size, and signals the foreground programs.
func (x *Terminal) Resize(width, height int) {
	x.t.Helper()
	x.mu.Lock()
	x.glass.Resize(width, height)
	x.mu.Unlock()
	ws := &unix.Winsize{Row: uint16(height), Col: uint16(width)}
	x.ioctl(func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, ws) })
}

// Settings returns the terminal's settings (termios).
func (x *Terminal) Settings() (now unix.Termios) {
	x.t.Helper()
	x.ioctl(func(fd int) error {
		s, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			now = *s
		}
		return err
	})
	return now
}

// Foreground returns the terminal's foreground process group.
func (x *Terminal) Foreground() (group int) {
	x.t.Helper()
	x.ioctl(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group
}

// Deaf stops reading the program's output, until the returned function is called.
func (x *Terminal) Deaf() (again func()) {
	done := make(chan struct{})
	go func() { // the reader releases the lock at its next text
		x.reading.Lock()
		close(done)
	}()
	return func() { <-done; x.reading.Unlock() }
}
