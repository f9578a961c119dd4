package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"ingero/internal/explain"
)

// keyboard reads lines from a terminal in raw mode, so that it receives every key, including
// Ctrl-C.
type keyboard struct {
	ctx     context.Context
	in      *os.File
	out     io.Writer
	fd      int
	line    *term.Terminal
	names   sqlNames
	pending []byte // typed but not yet read
	dropped bool   // Ctrl-C was typed
	undo    []func() error
}

// keyboard takes over the terminal of standard input.
func (e *Env) keyboard(ctx context.Context, n sqlNames) (k *keyboard, err error) {
	k = &keyboard{ctx: ctx, in: e.Stdin, out: e.Stdout, fd: int(e.Stdin.Fd()), names: n}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if !isTerminal(e.Stdout, e.Getenv) { // rows go elsewhere: echo to the terminal
		tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
		if err != nil {
			return k, err
		}
		k.out = tty
		k.undo = append(k.undo, tty.Close)
	}
	if err := k.raw(); err != nil {
		return k, err
	}
	k.line = term.NewTerminal(k, "")
	k.line.AutoCompleteCallback = k.complete
	k.line.SetBracketedPasteMode(true)
	k.undo = append(k.undo, func() error { k.line.SetBracketedPasteMode(false); return nil })
	h := &history{}
	if err := h.open(e.home(), e.invoker()); err != nil {
		e.note("Note: cannot save the history: %s", problemOf(err).What)
	}
	k.line.History = h
	k.undo = append(k.undo, h.close)
	return k, nil
}

// raw sets raw mode, in which each key arrives at once. Output still starts new lines at the
// left edge.
func (k *keyboard) raw() error {
	before, err := term.MakeRaw(k.fd)
	if err != nil {
		return err
	}
	k.undo = append(k.undo, func() error { return term.Restore(k.fd, before) })
	t, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Oflag |= unix.OPOST | unix.ONLCR
	return unix.IoctlSetTermios(k.fd, unix.TCSETS, t)
}

// close restores the terminal.
func (k *keyboard) close() error {
	var errs []error
	for len(k.undo) > 0 {
		last := len(k.undo) - 1
		errs = append(errs, k.undo[last]())
		k.undo = k.undo[:last]
	}
	return errors.Join(errs...)
}

func (k *keyboard) next(more bool) (string, error) {
	if w, h, err := term.GetSize(k.fd); err == nil && w > 0 {
		_ = k.line.SetSize(w, h)
	}
	prompt := "sql> "
	if more {
		prompt = "...> "
	}
	k.line.SetPrompt(prompt)
	line, err := k.line.ReadLine()
	if k.dropped {
		k.dropped = false
		return "", errDropped
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	if err == nil {
		line += "\n"
	}
	return line, err
}

// Control characters.
const (
	ctrlC = 3
	ctrlE = 5 // end of line
	ctrlU = 21
)

// wake is how often Read checks for the end of the command, in ms, while no key is typed.
const wake = 200

// Read implements [io.Reader]. It turns Ctrl-C into an empty line.
func (k *keyboard) Read(p []byte) (int, error) {
	for len(k.pending) == 0 {
		if err := k.ctx.Err(); err != nil {
			return 0, io.EOF
		}
		ready, err := poll([]unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}}, wake)
		if err != nil {
			return 0, err
		}
		if !ready {
			continue
		}
		if err := k.fill(); err != nil {
			return 0, err
		}
		if before, after, found := bytes.Cut(k.pending, []byte{ctrlC}); found {
			k.dropped = true
			k.pending = append(append(bytes.Clone(before), ctrlE, ctrlU, '\r'), after...)
		}
	}
	n := copy(p, k.pending)
	k.pending = k.pending[n:]
	return n, nil
}

// Write implements [io.Writer].
func (k *keyboard) Write(p []byte) (int, error) { return k.out.Write(p) }

// fill reads the typed keys.
func (k *keyboard) fill() error {
	var b [256]byte
	n, err := unix.Read(k.fd, b[:])
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil || n == 0: // the terminal is gone
		return io.EOF
	}
	k.pending = append(k.pending, b[:n]...)
	return nil
}

// poll waits for events on fds, at most ms (-1: forever). ready is true if fds[0] has one.
func poll(fds []unix.PollFd, ms int) (ready bool, err error) {
	_, err = unix.Poll(fds, ms)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	return err == nil && fds[0].Revents != 0, nil
}

// during implements lines. Ctrl-C cancels run; other typed keys stay pending.
func (k *keyboard) during(ctx context.Context, run func(context.Context) error) error {
	over, end, err := os.Pipe()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		k.watch(over, cancel)
	}()
	err = run(ctx)
	err = errors.Join(err, end.Close())
	<-watched
	return errors.Join(err, over.Close())
}

// watch calls stop when Ctrl-C is typed. It returns when over is closed.
func (k *keyboard) watch(over *os.File, stop func()) {
	for {
		fds := []unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}, {Fd: int32(over.Fd()), Events: unix.POLLIN}}
		typed, err := poll(fds, -1)
		if err != nil || fds[1].Revents != 0 {
			return
		}
		if !typed {
			continue
		}
		if k.fill() != nil {
			stop()
			return
		}
		if at := bytes.LastIndexByte(k.pending, ctrlC); at >= 0 {
			k.pending = bytes.Clone(k.pending[at+1:])
			stop()
		}
	}
}

// complete handles the Tab key.
func (k *keyboard) complete(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	found, length := k.names.fitting(line[:pos])
	if len(found) == 0 {
		return line, pos, true
	}
	word := common(found)
	if len(word) == length && len(found) > 1 {
		list := explain.Wrap(strings.Join(found, "  "), defaultWidth)
		_, _ = k.line.Write([]byte(strings.Join(list, "\n") + "\n"))
		return line, pos, true
	}
	if len(found) == 1 {
		word += " "
	}
	head := line[:pos-length] + word
	return head + strings.TrimPrefix(line[pos:], " "), len(head), true
}
