package screen

import (
	"errors"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Key is a typed key: a character, or one of those below.
type Key rune

// Keys that are not characters. Other such keys are ignored.
const (
	Up Key = -iota - 1
	Down
	Left
	Right
	PageUp
	PageDown
	Home
	End
	Escape
	Return
	Tab
	Backspace
)

// sequences are what terminals send for keys, without the leading ESC [ or ESC O (xterm, ECMA-48).
var sequences = map[string]Key{
	"A": Up, "B": Down, "C": Right, "D": Left, "H": Home, "F": End,
	"1~": Home, "7~": Home, "4~": End, "8~": End, "5~": PageUp, "6~": PageDown,
}

// controls are keys of one byte.
var controls = map[byte]Key{'\r': Return, '\n': Return, '\t': Tab, 0x7f: Backspace, 0x08: Backspace, 0x0c: Ctrl('L'), 0x15: Ctrl('U')}

// Ctrl returns the key of a letter typed with the control key: Ctrl('L').
func Ctrl(letter byte) Key { return Key(letter & 0x1f) }

// alone is how long after ESC it counts as a key of its own, not as the beginning of a sequence.
// The bytes of a sequence arrive at once.
const alone = 50 * time.Millisecond

// rest is the interval at which to check whether the program is in the foreground.
const rest = 300 * time.Millisecond

// read reads keys until Close.
func (s *Screen) read() {
	defer close(s.keys)
	var held []byte
	b := make([]byte, 256)
	for {
		var wait time.Time
		if len(held) > 0 {
			wait = time.Now().Add(alone)
		}
		if !s.until(wait) {
			return
		}
		n, err := s.tty.Read(b)
		held = append(held, b[:n]...)
		late := errors.Is(err, os.ErrDeadlineExceeded)
		switch {
		case err == nil, late:
		case errors.Is(err, unix.EIO) && !s.foreground(): // the program is in the background
			if !s.pause() {
				return
			}
		default: // the terminal has gone
			return
		}
		for len(held) > 0 {
			k, n := parse(held, late)
			if n == 0 {
				break
			}
			held = held[n:]
			if k != 0 {
				s.typed(k)
			}
		}
	}
}

// until sets the deadline of reads, and reports whether to read at all.
func (s *Screen) until(t time.Time) bool {
	if s.tty.SetReadDeadline(t) != nil {
		return false
	}
	select {
	case <-s.done: // before or after: Close ends the read either way
		return false
	default:
		return true
	}
}

// pause waits a moment. It returns false on Close.
func (s *Screen) pause() bool {
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-s.done:
		return false
	case <-t.C:
		s.redraw()
		return true
	}
}

func (s *Screen) typed(k Key) {
	select {
	case s.keys <- k:
	default:
	}
}

// parse returns the first key of the input, 0 for one that is ignored, and its length in bytes. The
// length is 0 while the key is incomplete, unless over says that no more will come.
func parse(b []byte, over bool) (Key, int) {
	if b[0] == 0x1b {
		return parseEscape(b, over)
	}
	if k, ok := controls[b[0]]; ok {
		return k, 1
	}
	if b[0] < 0x20 {
		return 0, 1
	}
	if !utf8.FullRune(b) && !over {
		return 0, 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError {
		return 0, n
	}
	return Key(r), n
}

// parseEscape is parse for input that begins with ESC.
func parseEscape(b []byte, over bool) (Key, int) {
	if len(b) == 1 {
		if over {
			return Escape, 1
		}
		return 0, 0
	}
	if b[1] != '[' && b[1] != 'O' { // the key itself, typed before another
		return Escape, 1
	}
	for i := 2; i < len(b); i++ {
		if b[i] >= 0x40 && b[i] <= 0x7e {
			return sequences[string(b[2:i+1])], i + 1
		}
	}
	if over {
		return 0, len(b)
	}
	return 0, 0
}
