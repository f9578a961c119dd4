package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"ingero/internal/explain"
	"ingero/internal/screen"
	"ingero/internal/tick"
)

// board is a live table on a terminal of its own, and what keys make of it. It draws on a
// goroutine of its own: whoever has something to show does not wait for the terminal.
type board struct {
	screen  *screen.Screen
	options explain.Options
	quit    func()      // a key asks for the end
	failed  func(error) // the terminal has gone
	lock    sync.Locker // held while what is seen is read, before mu

	mu      sync.Mutex
	now     *shot // nil: nothing yet
	display display
	lines   []string // that stay
	gone    int      // lines before those, not kept

	fresh chan struct{} // has one when there is something new
	done  chan struct{}
	ended sync.WaitGroup
}

// shot is what a table is made from.
type shot struct {
	tick tick.Tick
	seen *explain.Seen // nil: it is not known
	head string        // lines above, each ended
}

// Lines that stay are kept until the terminal is put back, so many; those that are shown
// meanwhile are the last.
const (
	keptLines = 1000
	lastLines = 3
)

// openBoard takes the terminal. It returns [screen.ErrNoTerminal] where there is none to be
// had.
func openBoard(in, out *os.File, o explain.Options, lock sync.Locker, quit func(), failed func(error)) (*board, error) {
	s, err := screen.Open(in, out)
	if err != nil {
		return nil, err
	}
	b := &board{screen: s, options: o, quit: quit, failed: failed, lock: lock, fresh: make(chan struct{}, 1), done: make(chan struct{})}
	b.ended.Go(b.run)
	return b, nil
}

// show shows s from now on. It does not wait, and keeps s.
func (b *board) show(s *shot) {
	b.mu.Lock()
	b.now = s
	b.mu.Unlock()
	b.renew()
}

// line shows a line that stays, without its end.
func (b *board) line(text string) {
	b.mu.Lock()
	if len(b.lines) == keptLines {
		b.lines = b.lines[1:]
		b.gone++
	}
	b.lines = append(b.lines, text)
	b.mu.Unlock()
	b.renew()
}

func (b *board) renew() {
	select {
	case b.fresh <- struct{}{}:
	default:
	}
}

// paused tells whether what is shown is to stay as it is.
func (b *board) paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.display.paused != nil
}

// run draws until the end.
func (b *board) run() {
	keys := b.screen.Keys()
	for {
		select {
		case <-b.done:
			return
		case k, ok := <-keys:
			if !ok { // the terminal has gone: the next drawing says so
				keys = nil
				continue
			}
			b.press(k)
		case <-b.screen.Again():
		case <-b.fresh:
		}
		width, height := b.screen.Size()
		if err := b.screen.Draw(b.frame(width, height)); err != nil {
			b.failed(err)
			return
		}
	}
}

func (b *board) press(k screen.Key) {
	b.mu.Lock()
	ends := b.display.press(k, b.now)
	b.mu.Unlock()
	if ends {
		b.quit()
	}
}

// frame is what the terminal shows: the page, the last lines that stay, and a line on keys.
func (b *board) frame(width, height int) []string {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	d := &b.display
	s := b.now
	if d.paused != nil {
		s = d.paused
	}
	if s == nil || height < 2 {
		return nil
	}
	below := b.lines[max(0, len(b.lines)-min(lastLines, height/6)):]
	page := d.lines(s, b.options, width, height-1-len(below))
	for len(page) < height-1-len(below) {
		page = append(page, "")
	}
	page = append(append(page, below...), d.state(s, b.options, width))
	for i, l := range page {
		page[i] = clip(l, width)
	}
	return page
}

// end puts the terminal back, and writes what is to stay there: the lines, and the table as
// it was last. w is the terminal.
func (b *board) end(w io.Writer) error {
	close(b.done)
	b.ended.Wait()
	width, _ := b.screen.Size()
	err := b.screen.Close()
	var text strings.Builder
	if b.gone > 0 {
		fmt.Fprintf(&text, "... %d lines are not kept\n", b.gone)
	}
	for _, l := range b.lines {
		text.WriteString(l + "\n")
	}
	if b.now != nil {
		o := b.options
		o.Width = max(width-1, 1)
		text.WriteString(b.now.head + explain.Live(&b.now.tick, b.now.seen, o))
	}
	_, e := io.WriteString(w, text.String())
	return errors.Join(err, e)
}
