package testkit

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Screen is the screen of a terminal. It executes the control sequences that the programs here use
// (ECMA-48, xterm). Its text shows any other sequence as a fault.
type Screen struct {
	Width, Height int
	Cooked        bool // a newline also returns to the left, as the kernel does in cooked mode

	rows     [][]rune
	row, col int
	main     [][]rune // saved while the alternate screen is shown
	at       [2]int   // saved cursor of main
	other    bool
	nowrap   bool
	hidden   bool // the cursor is hidden
	rest     []byte
	frame    bool   // a frame is being drawn
	shown    string // text before that frame (mode 2026)
}

// Write implements [io.Writer].
func (g *Screen) Write(p []byte) (int, error) {
	s := append(g.rest, p...)
	for len(s) > 0 {
		n := g.next(s)
		if n == 0 {
			break
		}
		s = s[n:]
	}
	g.rest = append([]byte(nil), s...)
	return len(p), nil
}

// next executes the first element of s, and returns its length, 0 if it is incomplete.
func (g *Screen) next(s []byte) int {
	switch s[0] {
	case '\r':
		g.col = 0
		return 1
	case '\n':
		if g.Cooked {
			g.col = 0
		}
		g.down()
		return 1
	case 0x1b:
		if len(s) < 3 {
			return 0
		}
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				g.escape(string(s[2:i]), s[i])
				return i + 1
			}
		}
		return 0
	}
	if !utf8.FullRune(s) {
		return 0
	}
	r, n := utf8.DecodeRune(s)
	g.put(r)
	return n
}

func (g *Screen) down() {
	if g.row++; g.row >= g.Height {
		g.fit()
		g.rows, g.row = g.rows[1:], g.Height-1
	}
}

func (g *Screen) put(r rune) {
	if g.col >= g.Width {
		if g.nowrap {
			g.col = g.Width - 1
		} else {
			g.col = 0
			g.down()
		}
	}
	g.fit()
	line := g.rows[g.row]
	for len(line) <= g.col {
		line = append(line, ' ')
	}
	line[g.col] = r
	g.rows[g.row] = line
	g.col++
}

func (g *Screen) fit() {
	for len(g.rows) <= g.row {
		g.rows = append(g.rows, nil)
	}
}

func (g *Screen) escape(arg string, what byte) {
	g.fit()
	n, _ := strconv.Atoi(arg)
	line := g.rows[g.row]
	switch {
	case what == 'm':
	case arg == "?2026":
		g.frame, g.shown = false, g.Text()
		g.frame = what == 'h'
	case what == 'A':
		g.row = max(0, g.row-n)
	case what == 'H':
		y, x, _ := strings.Cut(arg, ";")
		g.row, g.col = number(y)-1, number(x)-1
	case what == 'K' && n == 0:
		g.rows[g.row] = line[:min(len(line), g.col)]
	case what == 'J' && n == 0:
		g.rows[g.row] = line[:min(len(line), g.col)]
		g.rows = g.rows[:g.row+1]
	case what == 'J' && n == 2:
		g.rows = nil
	case arg == "?25":
		g.hidden = what == 'l'
	case arg == "?7":
		g.nowrap = what == 'l'
	case arg == "?1049" && g.other != (what == 'h'):
		g.swap()
	case arg == "?1049":
	default:
		for _, r := range "<ESC[" + arg + string(what) + ">" {
			g.put(r)
		}
	}
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return max(n, 1)
}

func (g *Screen) swap() {
	if g.other = !g.other; g.other {
		g.main, g.at, g.rows = g.rows, [2]int{g.row, g.col}, nil
		return
	}
	g.rows, g.row, g.col = g.main, g.at[0], g.at[1]
}

// Resize changes the size, and cuts off what does not fit.
func (g *Screen) Resize(width, height int) {
	g.Width, g.Height = width, height
	g.rows = g.rows[:min(len(g.rows), height)]
	for i, l := range g.rows {
		g.rows[i] = l[:min(len(l), width)]
	}
	g.row = min(g.row, height-1)
}

// Other reports whether the alternate screen is shown, the cursor is hidden or lines do not wrap.
func (g *Screen) Other() bool { return g.other || g.hidden || g.nowrap }

// Text returns the visible text, without trailing spaces and trailing empty lines. It excludes a
// frame that is incomplete.
func (g *Screen) Text() string {
	if g.frame {
		return g.shown
	}
	var b strings.Builder
	for _, l := range g.rows {
		b.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
