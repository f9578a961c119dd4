package testkit

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal for the length of a test, and who sits at it.
type Terminal struct {
	Side *os.File // the program's: its standard input and output

	t       testing.TB
	control *os.File

	mu   sync.Mutex
	text string
	more chan struct{} // has one when there is more text
	read chan struct{} // closed when no more comes
}

// NewTerminal opens a terminal of 100 columns and 40 lines.
func NewTerminal(t testing.TB) *Terminal {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(control.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 100}); err != nil {
		t.Fatal(err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &Terminal{Side: side, t: t, control: control, more: make(chan struct{}, 1), read: make(chan struct{})}
	go x.follow()
	t.Cleanup(func() {
		_ = side.Close() // the last of its side: the other is at its end
		<-x.read
		_ = control.Close()
	})
	return x
}

func (x *Terminal) follow() {
	defer close(x.read)
	b := make([]byte, 4096)
	for {
		n, err := x.control.Read(b)
		x.mu.Lock()
		x.text += string(b[:n])
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

// Until waits until the program has written a text, and returns all up to it, which
// is then forgotten.
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
