package cli

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"ingero/internal/screen"
)

// defaultWidth is the width of text that is not shown on a terminal.
const defaultWidth = 80

// isTerminal reports whether w is a terminal with a movable cursor.
func isTerminal(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && getenv("TERM") != "dumb"
}

// pane is a part of the terminal, from the cursor down, that draw redraws in place. Text
// written above it stays.
type pane struct {
	out  io.Writer
	size func() (width, height int)
	rows int // height of the last drawing
}

// newPane returns a pane on the terminal f.
func newPane(f *os.File) *pane {
	return &pane{out: screen.NewPatient(f), size: func() (int, int) {
		w, h, err := term.GetSize(int(f.Fd()))
		if err != nil || w <= 0 || h <= 0 {
			return defaultWidth, 24
		}
		return w, h
	}}
}

// draw replaces the content of the pane. It omits the last lines if the pane is too small: a
// line that wraps or scrolls away could not be overwritten.
func (p *pane) draw(text string) error {
	width, height := p.size()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if room := max(height-1, 1); len(lines) > room {
		hidden := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], "... "+strconv.Itoa(hidden)+" more lines: enlarge the window")
	}
	var b strings.Builder
	p.home(&b)
	for _, l := range lines {
		b.WriteString(clip(l, width-1))
		b.WriteString("\x1b[K\n") // clear the rest of the line
	}
	b.WriteString("\x1b[J") // clear the rest of the last drawing
	p.rows = len(lines)
	_, err := io.WriteString(p.out, b.String())
	return err
}

// above writes permanent text above the pane. The caller must draw the pane again.
func (p *pane) above(text string) error {
	var b strings.Builder
	p.home(&b)
	b.WriteString("\x1b[J")
	b.WriteString(text)
	p.rows = 0
	_, err := io.WriteString(p.out, b.String())
	return err
}

// close waits briefly for pending output.
func (p *pane) close() error {
	if c, ok := p.out.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// home moves the cursor to the pane's first line.
func (p *pane) home(b *strings.Builder) {
	b.WriteByte('\r')
	if p.rows > 0 {
		b.WriteString("\x1b[" + strconv.Itoa(p.rows) + "A")
	}
}

// clip truncates a line to width characters. It keeps all escape sequences, which have no
// width, so that colors end.
func clip(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	var b strings.Builder
	for n := 0; line != ""; {
		if e := escapeLen(line); e > 0 {
			b.WriteString(line[:e])
			line = line[e:]
			continue
		}
		_, size := utf8.DecodeRuneInString(line)
		if n < width {
			b.WriteString(line[:size])
		}
		n++
		line = line[size:]
	}
	return b.String()
}

// escapeLen returns the length of the control sequence (ECMA-48 CSI) at the start of s, 0 if
// there is none.
func escapeLen(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s); i++ {
		if s[i] >= 0x40 && s[i] <= 0x7e {
			return i + 1
		}
	}
	return 0
}
