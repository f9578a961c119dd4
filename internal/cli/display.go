package cli

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ingero/internal/explain"
	"ingero/internal/screen"
	"ingero/internal/tick"
)

// display is the state of the live display. The zero value is the table.
type display struct {
	page   page
	choice explain.Choice
	first  int        // topmost visible line of the page
	cursor int        // selected row of the process list
	typing bool       // a filter is being typed
	before string     // previous filter, restored by Esc
	paused *viewState // frozen state; nil: not paused
	ends   bool
}

// page is a page of the display.
type page uint8

const (
	tablePage page = iota
	wherePage
	processPage
	helpPage
)

// keyRow is a key binding.
type keyRow struct {
	keys []screen.Key
	name string // displayed name
	hint string // text in the last line; empty: omitted
	help string
	do   func(d *display, s *viewState)
}

// keyRows lists the key bindings. The help and docs/reference/commands.md are generated from it.
var keyRows = []keyRow{
	{[]screen.Key{'q'}, "q", "end", "quit, like Ctrl-C; the recording is kept", func(d *display, _ *viewState) { d.ends = true }},
	{[]screen.Key{'h', '?'}, "h, ?", "keys", "these keys", func(d *display, _ *viewState) { d.turn(helpPage) }},
	{[]screen.Key{' '}, "space", "pause", "pause the display while the trace continues; again: resume", (*display).pause},
	{[]screen.Key{'s'}, "s", "sort", "sort operations by the next column: " + orderNames(), func(d *display, _ *viewState) { d.choice.Order = d.choice.Order.Next(false) }},
	{[]screen.Key{'S'}, "S", "", "sort by the previous column", func(d *display, _ *viewState) { d.choice.Order = d.choice.Order.Next(true) }},
	{[]screen.Key{'/'}, "/", "filter", "filter by part of a process name, else of an operation; Return keeps the filter, Esc drops it",
		func(d *display, _ *viewState) { d.typing, d.before, d.choice.Text = true, d.choice.Text, "" }},
	{[]screen.Key{'p'}, "p", "process", "choose a process from a list with up, down and Return", (*display).list},
	{[]screen.Key{screen.Left, screen.Right}, "left, right", "", "previous process, next process", nil},
	{[]screen.Key{'w'}, "w", "where", "show where the time went, by part, and by cause for each thread; again: show the table", func(d *display, _ *viewState) { d.turn(wherePage) }},
	{[]screen.Key{screen.Escape}, "Esc", "", "return to the table; in the table: show all processes, no filter", (*display).back},
	{[]screen.Key{screen.Up, screen.Down, screen.PageUp, screen.PageDown, screen.Home}, "up, down, PgUp, PgDn, Home", "", "scroll, if there is more than fits", nil},
	{[]screen.Key{screen.Ctrl('L')}, "Ctrl-L", "", "redraw the screen", nil},
}

// orderNames lists the sort orders of operations.
func orderNames() string {
	var names []string
	for o := explain.Order(0); ; {
		names = append(names, o.String())
		if o = o.Next(false); o == 0 {
			return strings.Join(names, ", ")
		}
	}
}

// keysHelp renders the key bindings as indented text, 80 columns wide.
func keysHelp() string {
	var b strings.Builder
	for _, r := range keyRows {
		name := r.name
		if len(name) > keyWide-2 { // too wide: on a separate line
			b.WriteString("    " + name + "\n")
			name = ""
		}
		for _, l := range explain.Wrap(r.help, 79-4-keyWide) {
			fmt.Fprintf(&b, "    %-*s%s\n", keyWide, name, l)
			name = ""
		}
	}
	return b.String()
}

// keyWide is the width of the column of key names.
const keyWide = 13

// press handles a key and reports whether it quits the display. s is the shown state, nil if
// there is none yet.
func (d *display) press(k screen.Key, s *viewState) (ends bool) {
	if s == nil {
		s = &viewState{}
	}
	switch {
	case d.typing:
		d.typed(k)
		return false
	case d.page == processPage && (k == screen.Up || k == screen.Down):
		d.move(k, s)
		return false
	case d.page == processPage && k == screen.Return:
		d.choose(s)
		return false
	case k == screen.Left || k == screen.Right:
		d.step(k, s)
		return false
	}
	if by, is := scrolls[k]; is {
		d.first = max(0, d.first+by)
		return false
	}
	for i := range keyRows {
		if r := &keyRows[i]; r.do != nil && slices.Contains(r.keys, k) {
			r.do(d, s)
		}
	}
	return d.ends
}

// scrolls maps keys to the number of lines they scroll by.
var scrolls = map[screen.Key]int{screen.Up: -1, screen.Down: 1, screen.PageUp: -10, screen.PageDown: 10, screen.Home: -1 << 20}

// longestFilter is the maximum size of a filter, in bytes.
const longestFilter = 64

// typed handles a key while a filter is being typed.
func (d *display) typed(k screen.Key) {
	text := &d.choice.Text
	switch {
	case k == screen.Return:
		d.typing = false
	case k == screen.Escape:
		d.typing, *text = false, d.before
	case k == screen.Backspace:
		_, n := utf8.DecodeLastRuneInString(*text)
		*text = (*text)[:len(*text)-n]
	case k == screen.Ctrl('U'):
		*text = ""
	case k >= ' ' && len(*text) < longestFilter:
		*text += string(rune(k))
	}
	d.first = 0
}

// turn shows page p, or the table if p is already shown.
func (d *display) turn(p page) {
	if d.page == p {
		p = tablePage
	}
	d.page, d.first = p, 0
}

func (d *display) pause(s *viewState) {
	if d.paused != nil {
		d.paused = nil
		return
	}
	d.paused = s
}

// back returns to the table; at the top of the table, it clears the filter and the process.
func (d *display) back(*viewState) {
	if d.page == tablePage && d.first == 0 {
		d.choice.PID, d.choice.Text = 0, ""
	}
	d.page, d.first = tablePage, 0
}

// targets returns the processes to choose from: running ones first.
func targets(s *viewState) []tick.Process {
	out := slices.Clone(s.tick.Processes)
	slices.SortStableFunc(out, func(a, b tick.Process) int {
		switch {
		case a.Ended.IsZero() == b.Ended.IsZero():
			return 0
		case a.Ended.IsZero():
			return -1
		}
		return 1
	})
	return out
}

// at returns the chosen process's row in the list. Row 0 is all processes.
func (d *display) at(s *viewState) int {
	return 1 + slices.IndexFunc(targets(s), func(p tick.Process) bool { return p.PID == d.choice.PID })
}

func (d *display) list(s *viewState) {
	d.turn(processPage)
	d.cursor = d.at(s)
}

func (d *display) move(k screen.Key, s *viewState) {
	by := 1
	if k == screen.Up {
		by = -1
	}
	d.cursor = min(max(0, d.cursor+by), len(targets(s)))
}

func (d *display) choose(s *viewState) {
	d.choice.PID = 0
	if all := targets(s); d.cursor > 0 && d.cursor <= len(all) {
		d.choice.PID = all[d.cursor-1].PID
	}
	d.turn(tablePage)
}

// step chooses the next or previous process, cyclically; the cycle includes "all processes".
func (d *display) step(k screen.Key, s *viewState) {
	n := len(targets(s)) + 1
	d.cursor = (d.at(s) + 1) % n
	if k == screen.Left {
		d.cursor = (d.at(s) + n - 1) % n
	}
	was := d.page
	d.choose(s)
	d.page, d.first = was, 0
}
