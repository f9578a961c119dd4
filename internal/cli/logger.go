package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// logLines is a log handler for people: "15:41:20.123 INFO discover: found libcudart.so path=/x".
// It writes slog's text format without the keys of time, level and message.
type logLines struct {
	slog.Handler // writes the attributes to text
	to           *logTo
}

// logTo is the output that a handler shares with the handlers derived from it.
type logTo struct {
	mu   sync.Mutex
	w    io.Writer
	text bytes.Buffer
}

func newLogLines(w io.Writer, level slog.Level) *logLines {
	to := &logTo{w: w}
	bare := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}
	return &logLines{slog.NewTextHandler(&to.text, &slog.HandlerOptions{Level: level, ReplaceAttr: bare}), to}
}

// Handle implements [slog.Handler].
func (l *logLines) Handle(ctx context.Context, r slog.Record) error {
	l.to.mu.Lock()
	defer l.to.mu.Unlock()
	l.to.text.Reset()
	if err := l.Handler.Handle(ctx, r); err != nil {
		return err
	}
	line := make([]byte, 0, 128)
	line = r.Time.AppendFormat(line, "15:04:05.000")
	line = append(line, " "+r.Level.String()+" "+oneLine(r.Message)...)
	if l.to.text.Len() > 1 { // otherwise text is only the newline
		line = append(line, ' ')
	}
	_, err := l.to.w.Write(append(line, l.to.text.Bytes()...))
	return err
}

// WithAttrs implements [slog.Handler].
func (l *logLines) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logLines{l.Handler.WithAttrs(attrs), l.to}
}

// WithGroup implements [slog.Handler].
func (l *logLines) WithGroup(name string) slog.Handler {
	return &logLines{l.Handler.WithGroup(name), l.to}
}

// logOutput writes to standard error, or to a board while the board has the terminal, so that
// lines do not disturb the drawing.
type logOutput struct {
	out io.Writer

	mu    sync.Mutex
	board *board
}

// to directs later lines to a board; nil: to standard error.
func (a *logOutput) to(b *board) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.board = b
}

// Write implements [io.Writer]. p must be whole lines.
func (a *logOutput) Write(p []byte) (int, error) {
	a.mu.Lock()
	b := a.board
	a.mu.Unlock()
	if b == nil {
		return a.out.Write(p)
	}
	for l := range strings.Lines(string(p)) {
		b.line(oneLine(strings.TrimSuffix(l, "\n")))
	}
	return len(p), nil
}
