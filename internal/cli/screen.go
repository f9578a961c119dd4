package cli

import (
	"io"
	"sync"

	"ingero/internal/tick"
)

// screen is what a person sees of a trace: notices, and the table, drawn over
// and over on a terminal or written one after another elsewhere. Notices come
// from any goroutine, ticks from the session's.
type screen struct {
	mu     sync.Mutex
	out    io.Writer
	pane   *pane // nil: no terminal
	last   string
	notify io.Writer // for notices when there is no pane
	render func(t *tick.Tick, width int) string
}

// notice shows a line that stays.
func (s *screen) notice(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line = oneLine(line) + "\n"
	if s.pane == nil || s.last == "" {
		_, _ = io.WriteString(s.notify, line)
		return
	}
	_ = s.pane.above(line)
	_ = s.pane.draw(s.last)
}

// Batch implements [tick.Sink].
func (s *screen) Batch(*tick.Batch) error { return nil }

// Tick implements [tick.Sink].
func (s *screen) Tick(t *tick.Tick) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(t.Ops) == 0 && s.last == "" { // nothing yet: the line that says so stays
		return nil
	}
	if s.pane == nil {
		s.last = s.render(t, defaultWidth)
		_, err := io.WriteString(s.out, s.last+"\n")
		return err
	}
	width, _ := s.pane.size()
	s.last = s.render(t, width)
	return s.pane.draw(s.last)
}

// Close implements [tick.Sink]. The last table stays on the screen.
func (s *screen) Close() error { return nil }
