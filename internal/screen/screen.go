package screen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Sequences that take and restore the terminal: alternate screen, hidden cursor, no line wrap (DEC
// private modes 1049, 25 and 7).
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[H\x1b[2J"
	leave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Terminals with mode 2026 show a frame at once; others ignore it.
const (
	beginFrame = "\x1b[?2026h"
	endFrame   = "\x1b[?2026l"
)

// patience is how long a write may wait for the terminal, and farewell the last one.
const (
	patience = 100 * time.Millisecond
	farewell = time.Second
)

// ErrNoTerminal means that there is no terminal to take over.
var ErrNoTerminal = errors.New("no controlling terminal")

// Screen is a terminal that the program has taken over. Draw and Close are not safe for concurrent
// use.
type Screen struct {
	tty   *os.File // a file description of its own, non-blocking
	fd    int
	guard *guard

	keys    chan Key
	again   chan struct{}
	signals chan os.Signal
	done    chan struct{}
	ended   sync.WaitGroup

	mu            sync.Mutex
	held          bool
	before, ours  unix.Termios
	shown         []string // lines on the terminal; nil: unknown
	width, height int      // size at that time
	pending       []byte   // output that the terminal has not accepted yet
}

// Open takes over the terminal that in and out both refer to. It returns ErrNoTerminal, and changes
// nothing, if they differ or the program is in the background.
func Open(in, out *os.File) (*Screen, error) {
	s, err := open(in, out)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoTerminal, err)
	}
	return s, nil
}

func open(in, out *os.File) (*Screen, error) {
	var a, b unix.Stat_t
	if unix.Fstat(int(in.Fd()), &a) != nil || unix.Fstat(int(out.Fd()), &b) != nil || a.Rdev != b.Rdev || a.Mode&unix.S_IFMT != unix.S_IFCHR {
		return nil, errors.New("input and output are different terminals")
	}
	tty, err := reopen(out)
	if err != nil {
		return nil, err
	}
	s := &Screen{tty: tty, keys: make(chan Key, 64), again: make(chan struct{}, 1), signals: make(chan os.Signal, 8), done: make(chan struct{})}
	if err := control(tty, func(fd int) error { s.fd = fd; return nil }); err != nil {
		return nil, errors.Join(err, tty.Close())
	}
	if !s.foreground() {
		return nil, errors.Join(errors.New("the program is in the background"), tty.Close())
	}
	if s.guard, err = startGuard(out); err != nil {
		return nil, errors.Join(err, tty.Close())
	}
	// A background program may still restore the terminal, but not read from it.
	signal.Ignore(unix.SIGTTOU, unix.SIGTTIN)
	signal.Notify(s.signals, unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT)
	s.mu.Lock()
	err = s.take()
	s.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.ended.Go(s.watch)
	s.ended.Go(s.read)
	return s, nil
}

// Keys delivers the typed keys, in order. It is closed when the terminal has gone. Keys that are
// not received are dropped.
func (s *Screen) Keys() <-chan Key { return s.keys }

// Again signals that the screen should be redrawn: the terminal was resized, or used by another
// program.
func (s *Screen) Again() <-chan struct{} { return s.again }

// Size returns the columns and the lines of the terminal.
func (s *Screen) Size() (width, height int) {
	ws, err := unix.IoctlGetWinsize(s.fd, unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 80, 24
	}
	return int(ws.Col), int(ws.Row)
}

// Draw shows lines from the top, and writes only those that have changed. The caller truncates them
// to the screen. Nothing is drawn while another program has the terminal or the last frame is not
// written. Draw returns an error when the terminal has gone.
func (s *Screen) Draw(lines []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.follow(); err != nil || !s.held {
		return err
	}
	if sent, err := s.send(patience); err != nil || !sent {
		return err
	}
	width, height := s.Size()
	if width != s.width || height != s.height {
		s.shown, s.width, s.height = nil, width, height
	}
	lines = lines[:min(len(lines), height)]
	text := changes(s.shown, lines)
	if text == "" {
		return nil
	}
	s.pending = append(s.pending, beginFrame+text+endFrame...)
	s.shown = append(make([]string, 0, len(lines)+1), lines...)
	_, err := s.send(patience)
	return err
}

// changes returns the output that turns one frame into another. nil is an unknown frame.
func changes(was, is []string) string {
	var b strings.Builder
	for i, l := range is {
		if was == nil || i >= len(was) || was[i] != l {
			b.WriteString("\x1b[" + strconv.Itoa(i+1) + ";1H" + l + "\x1b[0m\x1b[K")
		}
	}
	if was == nil || len(is) < len(was) {
		b.WriteString("\x1b[" + strconv.Itoa(len(is)+1) + ";1H\x1b[J")
	}
	return b.String()
}

// send writes the pending output. mu is held.
func (s *Screen) send(wait time.Duration) (sent bool, err error) {
	s.pending, err = write(s.tty, s.pending, wait)
	return len(s.pending) == 0, err
}

// write writes p to a terminal, and returns the part not accepted in time.
func write(tty *os.File, p []byte, wait time.Duration) (left []byte, err error) {
	if len(p) == 0 {
		return p, nil
	}
	if err := tty.SetWriteDeadline(time.Now().Add(wait)); err != nil {
		return p, err
	}
	n, err := tty.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return append(p[:0], p[n:]...), err
}

// Close restores the terminal.
func (s *Screen) Close() error {
	select {
	case <-s.done:
		return nil
	default:
	}
	close(s.done)
	signal.Stop(s.signals)
	_ = s.tty.SetReadDeadline(time.Unix(1, 0))
	s.ended.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.putBack()
	signal.Reset(unix.SIGTTOU, unix.SIGTTIN)
	return errors.Join(err, s.guard.end(), s.tty.Close())
}

// take takes over the terminal. mu is held.
func (s *Screen) take() error {
	t, err := unix.IoctlGetTermios(s.fd, unix.TCGETS)
	if err != nil {
		return fmt.Errorf("read the terminal's settings: %w", err)
	}
	s.before, s.ours = *t, *t
	s.ours.Lflag &^= unix.ICANON | unix.ECHO | unix.ECHONL // Ctrl-C and Ctrl-Z are still signals
	s.ours.Cc[unix.VMIN], s.ours.Cc[unix.VTIME] = 1, 0
	if err := s.guard.hold(&s.before); err != nil {
		return fmt.Errorf("notify the terminal's guard: %w", err)
	}
	if err := unix.IoctlSetTermios(s.fd, unix.TCSETS, &s.ours); err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	s.held, s.shown = true, nil
	s.pending = append(s.pending, enter...)
	_, err = s.send(patience)
	return err
}

// putBack restores the terminal, except settings that another program has changed since. mu is
// held.
func (s *Screen) putBack() error {
	if !s.held {
		return nil
	}
	s.held = false
	s.pending = append(s.pending, leave...)
	_, err := s.send(farewell)
	s.pending = nil
	if now, e := unix.IoctlGetTermios(s.fd, unix.TCGETS); e == nil && *now == s.ours {
		err = errors.Join(err, unix.IoctlSetTermios(s.fd, unix.TCSETS, &s.before))
	}
	return errors.Join(err, s.guard.free())
}

// foreground reports whether the program is in the foreground, or the terminal has no foreground
// group.
func (s *Screen) foreground() bool {
	group, err := unix.IoctlGetInt(s.fd, unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// follow takes the terminal when the program has come to the foreground, and restores it when it
// has left. mu is held.
func (s *Screen) follow() error {
	switch front := s.foreground(); {
	case front && !s.held:
		return s.take()
	case !front && s.held:
		return s.putBack()
	}
	return nil
}

// watch handles signals.
func (s *Screen) watch() {
	for {
		select {
		case <-s.done:
			return
		case sig := <-s.signals:
			if sig == unix.SIGTSTP {
				s.stop()
			}
			s.redraw()
		}
	}
}

func (s *Screen) redraw() {
	select {
	case s.again <- struct{}{}:
	default:
	}
}

// stop stops the program after Ctrl-Z, until SIGCONT. If no shell is left that could continue it,
// the program goes on, as the kernel does by default.
func (s *Screen) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.putBack() // a terminal that has gone needs nothing
	if !orphaned() {
		runtime.LockOSThread()
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP) // it stops here
		runtime.UnlockOSThread()
	}
	_ = s.follow()
}

// orphaned reports whether no parent outside this program's group, but in its session, is left that
// could continue it, such as a shell.
func orphaned() bool {
	own := unix.Getpgrp()
	session, err := unix.Getsid(0)
	for pid := unix.Getppid(); err == nil && pid > 1; pid = parent(pid) {
		group, gone := unix.Getpgid(pid)
		if theirs, e := unix.Getsid(pid); gone != nil || e != nil || theirs != session {
			return true
		}
		if group != own {
			return false
		}
	}
	return true
}

// parent reads the parent of a process from /proc/PID/stat, 0 if there is none.
func parent(pid int) (ppid int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var state string
	_, _ = fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &ppid)
	return ppid
}

// reopen opens a non-blocking description of a terminal. The program's parent shares that of out,
// and may rely on blocking writes.
func reopen(out *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", out.Fd()), os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
}

// control calls f with the descriptor of a file, and does not change its blocking mode.
func control(file *os.File, f func(fd int) error) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(c.Control(func(fd uintptr) { failed = f(int(fd)) }), failed)
}
