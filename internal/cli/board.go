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

// board is a live table on the terminal's alternate screen, with its key bindings. It draws
// on its own goroutine, so callers of show and line do not wait for the terminal.
type board struct {
	screen  *screen.Screen
	options explain.Options
	quit    func()      // called when a key asks to quit
	failed  func(error) // called when the terminal is gone
	lock    sync.Locker // held while a frame reads the state; taken before mu

	mu      sync.Mutex
	now     *viewState // nil until the first state
	display display
	lines   []string // permanent lines, the last keptLines of them
	gone    int      // number of older lines dropped

	fresh chan struct{} // holds one element when there is something new to draw
	done  chan struct{}
	ended sync.WaitGroup
}

// viewState is the input of one table.
type viewState struct {
	tick tick.Tick
	seen *explain.Seen // nil: unknown
	head string        // lines above the table, each ending in a newline
}

// A board keeps the last keptLines permanent lines until it restores the terminal. It shows
// the last lastLines of them below the table.
const (
	keptLines = 1000
	lastLines = 3
)

// openBoard takes over the terminal. It returns [screen.ErrNoTerminal] if there is none.
func openBoard(in, out *os.File, o explain.Options, lock sync.Locker, quit func(), failed func(error)) (*board, error) {
	s, err := screen.Open(in, out)
	if err != nil {
		return nil, err
	}
	b := &board{screen: s, options: o, quit: quit, failed: failed, lock: lock, fresh: make(chan struct{}, 1), done: make(chan struct{})}
	b.ended.Go(b.run)
	return b, nil
}

// show replaces the shown state with s and keeps s. It does not block.
func (b *board) show(s *viewState) {
	b.mu.Lock()
	b.now = s
	b.mu.Unlock()
	b.renew()
}

// line appends a permanent line; text has no newline.
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

// paused reports whether the display is paused.
func (b *board) paused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.display.paused != nil
}

// run draws until end is called or drawing fails.
func (b *board) run() {
	keys := b.screen.Keys()
	for {
		select {
		case <-b.done:
			return
		case k, ok := <-keys:
			if !ok { // the terminal is gone: the next Draw returns the error
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

// frame returns what the terminal shows: the page, the last permanent lines and a key line.
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

// end restores the terminal and writes to w, the terminal, the permanent lines and the last
// table.
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
