package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// color is an ANSI attribute (ECMA-48 SGR). It never carries meaning alone.
type color string

const (
	plain  color = ""
	bold   color = "\x1b[1m"
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
	reset        = "\x1b[0m"
)

// span is a part of a line, in one color.
type span struct {
	text  string
	color color
}

// block is a group of lines. Rows at its end may be left out.
type block struct {
	fixed [][]span
	rows  []ranked
	shown int // rows, when not all
	gap   bool
}

type ranked struct {
	line []span
	rank uint64
}

func (b *block) lines() int {
	n := len(b.fixed) + len(b.rows)
	if b.shown < len(b.rows) {
		n = len(b.fixed) + b.shown + 1
	}
	return n
}

// screen is a table under construction.
type screen struct {
	width  int
	color  bool
	order  Order
	blocks []block
	notes  int  // limits of what is seen
	coarse bool // some quantiles are from the kernel's histogram
}

// addLine adds a fixed line; after rows, it starts a new block.
func (s *screen) addLine(line ...span) {
	if n := len(s.blocks); n == 0 || len(s.blocks[n-1].rows) > 0 {
		s.blocks = append(s.blocks, block{})
	}
	b := &s.blocks[len(s.blocks)-1]
	b.fixed = append(b.fixed, line)
}

// blank separates the next lines from the previous ones.
func (s *screen) blank() { s.blocks = append(s.blocks, block{gap: true}) }

func (s *screen) title(text string) {
	s.blank()
	s.addLine(span{text, bold})
}

// row adds a line that may be left out, lowest rank first.
func (s *screen) row(rank uint64, line []span) {
	b := &s.blocks[len(s.blocks)-1]
	b.rows = append(b.rows, ranked{line, rank})
	b.shown++
}

// render returns at most height lines, or all of them if height is zero.
func (s *screen) render(height int) string {
	gaps := s.fit(height)
	var lines []string
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.gap && gaps && i > 0 {
			lines = append(lines, "")
		}
		for _, l := range b.fixed {
			lines = append(lines, s.text(l))
		}
		kept := b.kept()
		for j := range b.rows {
			if kept[j] {
				lines = append(lines, s.text(b.rows[j].line))
			}
		}
		if more := len(b.rows) - b.shown; more > 0 {
			lines = append(lines, cut("  ... "+strconv.Itoa(more)+" more", s.width))
		}
	}
	if height > 0 && len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1], cut("... "+strconv.Itoa(more)+" more lines", s.width))
	}
	return strings.Join(lines, "\n") + "\n"
}

// fit leaves out empty lines, then rows of the longest tables, to fit.
func (s *screen) fit(height int) (gaps bool) {
	count := func() (n int) {
		for i := range s.blocks {
			n += s.blocks[i].lines()
		}
		return n
	}
	n, empty := count(), 0
	for i := range s.blocks {
		if s.blocks[i].gap && i > 0 {
			empty++
		}
	}
	if height <= 0 || n+empty <= height {
		return true
	}
	for ; n > height; n = count() {
		longest := slices.MaxFunc(index(s.blocks), func(a, b int) int { return cmp.Compare(s.blocks[a].shown, s.blocks[b].shown) })
		b := &s.blocks[longest]
		if b.shown <= 2 {
			return false
		}
		if b.shown == len(b.rows) { // the line with the count replaces one row
			b.shown--
		}
		b.shown--
	}
	return false
}

func index(b []block) []int {
	out := make([]int, len(b))
	for i := range out {
		out[i] = i
	}
	return out
}

// kept returns which rows are shown: those of the highest rank.
func (b *block) kept() []bool {
	order := make([]int, len(b.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(b.rows[y].rank, b.rows[x].rank) })
	out := make([]bool, len(b.rows))
	for _, i := range order[:b.shown] {
		out[i] = true
	}
	return out
}

// text returns a line, truncated to the width.
func (s *screen) text(line []span) string {
	var b strings.Builder
	room := s.width
	for i, p := range line {
		text := p.text
		if i == len(line)-1 {
			text = strings.TrimRight(text, " ")
		}
		text = cut(text, room)
		room -= cells(text)
		if s.color && p.color != plain && text != "" {
			text = string(p.color) + text + reset
		}
		b.WriteString(text)
	}
	return b.String()
}
