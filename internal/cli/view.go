package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingero/internal/explain"
	"ingero/internal/proc"
	"ingero/internal/session"
	"ingero/internal/symbols"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// plainEvery is how often the table is printed if there is no terminal.
const plainEvery = 10 * time.Second

// view shows a running trace to a person or to a program behind a pipe. It is a sink; notices
// may come from any goroutine. If standard output is JSON, lines for people go to standard
// error.
type view struct {
	json    bool
	verbose bool
	service bool               // the output is a log: no table
	stop    context.CancelFunc // ends the trace when the output is closed
	out     *bufio.Writer
	side    io.Writer // lines for people
	debug   io.Writer // nil: stacks are not shown
	color   bool
	take    func(*view) (*board, error) // takes over the terminal; nil: do not
	log     *logOutput

	notices chan session.Notice // not yet shown
	found   atomic.Bool         // a process to trace was found

	mu        sync.Mutex // held while writing, which may block on the reader
	pane      *pane      // nil: no terminal
	board     *board     // nil: the terminal is not taken over
	table     string
	shown     time.Time
	named     bool // the first process was announced
	comms     map[uint32]string
	functions symbols.Functions
	words     map[string]string // readable function names, by mangled name
	seen      explain.Seen
	losses    losses
	line      []byte
	stacks    stackView
	lost      stackLosses
	err       error
}

// view returns a view that writes to out. It calls stop when writing fails.
func (e *Env) view(json, verbose bool, out *os.File, stop context.CancelFunc) *view {
	v := &view{json: json, verbose: verbose, stop: stop, log: e.logOutput, out: bufio.NewWriterSize(out, 64<<10), side: out, comms: map[uint32]string{},
		notices: make(chan session.Notice, 1024)}
	switch {
	case json:
		v.side = e.Stderr
	case isTerminal(out, e.Getenv):
		v.color = e.Getenv("NO_COLOR") == ""
		if !verbose {
			v.pane = newPane(out)
			v.take = func(v *view) (*board, error) {
				return openBoard(e.Stdin, out, v.options(0, 0), &v.mu, stop, v.broken)
			}
		}
	}
	return v
}

// printLine shows a permanent line, after the pending notices.
func (v *view) printLine(line string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.printNotices()
	v.write(line)
}

// write writes a line for people. The caller holds mu.
func (v *view) write(line string) {
	line = oneLine(line) + "\n"
	if v.board != nil {
		v.board.line(strings.TrimSuffix(line, "\n"))
		return
	}
	if v.pane == nil || v.table == "" {
		_, _ = io.WriteString(v.side, line)
		return
	}
	_ = v.pane.above(line)
	_ = v.pane.draw(v.table)
}

// notify queues a notice of the session. It does not block, since the session would block with
// it. When the queue is full, it drops notices; the log and the ticks have the same information.
func (v *view) notify(n session.Notice) {
	if n.Kind == session.NoticeTracing {
		v.found.Store(true)
	}
	select {
	case v.notices <- n:
	default:
	}
}

// printNotices shows the pending notices. The caller holds mu.
func (v *view) printNotices() {
	for {
		select {
		case n := <-v.notices:
			switch n.Kind {
			case session.NoticeTracing:
				v.comms[n.PID] = n.Comm
				if !v.named {
					v.named = true
					v.write(fmt.Sprintf("Tracing %s (%d)", n.Comm, n.PID))
				}
			case session.NoticeCounted:
				v.write("ingero: " + n.Reason)
			case session.NoticeFailed:
				v.write(fmt.Sprintf("ingero: %s is not traced: %s", n.Library, problemOf(n.Err).What))
			}
		default:
			return
		}
	}
}

// waitsFor says what the trace waits for if it has not found all processes yet.
func (v *view) waitsFor(o *session.LiveOptions, late []proc.Process) {
	if !v.found.Load() || len(late) > 0 {
		v.printLine(waitText(o, late))
	}
}

// Batch implements [tick.Sink].
func (v *view) Batch(b *tick.Batch) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.printNotices()
	for i := range b.Procs {
		if p := &b.Procs[i]; p.Kind == tick.ProcForked {
			v.comms[p.Peer] = p.Comm
		} else {
			v.comms[p.PID] = p.Comm
		}
	}
	v.seen.Add(b)
	v.functions.Add(b.Functions)
	if v.json || v.debug != nil {
		v.stacks.add(b.Stacks)
		v.stacks.release(v.printWithStack)
	}
	if !v.json && !v.verbose && v.debug == nil || v.err != nil {
		return nil
	}
	v.lines(b)
	v.check(v.out.Flush())
	return nil
}

// lines writes a batch as lines: process events, functions, waits, then the calls around them.
// The caller holds mu. The writer keeps errors for Flush.
func (v *view) lines(b *tick.Batch) {
	if v.json {
		for i := range b.Procs {
			v.writeLine(explain.AppendProcJSON(v.line[:0], &b.Procs[i]))
		}
	}
	for i := range b.Functions {
		if v.json {
			v.writeLine(explain.AppendFunctionJSON(v.line[:0], &b.Functions[i]))
		}
	}
	for i := range b.Waits {
		w := &b.Waits[i]
		switch {
		case v.json:
			v.writeLine(explain.AppendWaitJSON(v.line[:0], w, v.comms[w.PID]))
		case v.verbose:
			v.writeLine(explain.AppendWaitLine(v.line[:0], w, v.comms[w.PID], time.Local))
		}
	}
	for i := range b.Calls {
		c := &b.Calls[i]
		if v.verbose && !v.json {
			v.writeLine(explain.AppendCallLine(v.line[:0], c, v.comms[c.PID], v.readable(v.functions.Name(c)), time.Local))
		}
		if (v.json || v.debug != nil) && !v.stacks.wait(c) {
			v.printWithStack(c)
		}
	}
}

// writeLine writes a line. The caller holds mu.
func (v *view) writeLine(line []byte) {
	v.line = append(line, '\n')
	_, _ = v.out.Write(v.line)
}

// printWithStack shows a call whose stack is known or no longer expected. The caller holds mu.
func (v *view) printWithStack(c *events.Call) {
	name := v.functions.Name(c)
	if v.debug != nil {
		v.stacks.print(v.debug, c, name)
	}
	if !v.json {
		return
	}
	if s := v.stacks.stack(c); s != nil {
		v.writeLine(explain.AppendCallWithStackJSON(v.line[:0], c, v.comms[c.PID], name, s))
	} else {
		v.writeLine(explain.AppendCallJSON(v.line[:0], c, v.comms[c.PID], name))
	}
}

// maxReadable limits the cache of readable names.
const maxReadable = 1 << 12

// readable returns a mangled name in readable form. The caller holds mu.
func (v *view) readable(name string) string {
	if name == "" {
		return ""
	}
	s, ok := v.words[name]
	if !ok {
		if len(v.words) >= maxReadable || v.words == nil {
			v.words = map[string]string{}
		}
		s = explain.FunctionName(name)
		v.words[name] = s
	}
	return s
}

// Tick implements [tick.Sink].
func (v *view) Tick(t *tick.Tick) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.printNotices()
	v.seen.Tick(t)
	if line := v.losses.line(t); line != "" {
		v.write(line)
	}
	for i := range t.Processes {
		v.comms[t.Processes[i].PID] = t.Processes[i].Comm
	}
	if v.stacks.tick(t.Final); v.err == nil {
		v.stacks.release(v.printWithStack)
	}
	if text := v.lost.grown(t); text != "" {
		v.write("WARN " + text)
	}
	if err := v.episodes(t); err != nil {
		return err
	}
	switch {
	case v.err != nil:
	case v.json && t.Idle:
	case v.json:
		line, err := explain.TickJSON(t)
		if err != nil {
			return err
		}
		_, _ = v.out.Write(append(line, '\n')) // the writer keeps the error for Flush
		v.check(v.out.Flush())
	case v.pane != nil:
		v.draw(t)
	case v.service: // a log has lines only
	case !v.verbose && t.Time.Sub(v.shown) >= plainEvery || t.Final:
		v.shown = t.Time
		_, err := fmt.Fprintf(v.out, "%s\n", explain.Live(t, &v.seen, v.options(defaultWidth, 0)))
		v.check(errors.Join(err, v.out.Flush()))
	}
	return nil
}

// draw draws the table. With the first table, it takes over the terminal. The caller holds mu.
func (v *view) draw(t *tick.Tick) {
	if len(t.Ops) == 0 && v.table == "" && v.board == nil && !t.Final { // keep the line that says what the trace waits for
		return
	}
	if v.take != nil && v.table == "" && v.debug == nil && !t.Final {
		b, err := v.take(v)
		if err == nil {
			v.board = b
			v.log.to(b)
		}
		v.take = nil // if that failed, draw at the cursor, without keys
	}
	if v.board != nil {
		v.board.show(&viewState{tick: *t, seen: &v.seen})
		return
	}
	width, height := v.pane.size()
	v.table = explain.Live(t, &v.seen, v.options(width-1, height-1))
	v.check(v.pane.draw(v.table))
}

// broken records an error of the terminal.
func (v *view) broken(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.check(err)
}

// end restores the terminal and leaves the permanent lines. It must be called after the last batch.
func (v *view) end() {
	v.mu.Lock()
	b := v.board
	v.board = nil
	if b == nil && v.pane != nil {
		v.check(v.pane.close())
	}
	v.mu.Unlock()
	if b == nil {
		return
	}
	v.log.to(nil)
	err := b.end(v.side)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.check(err)
}

func (v *view) options(width, height int) explain.Options {
	return explain.Options{Width: width, Height: height, Color: v.color, Location: time.Local}
}

// check records an output error and ends the trace. The caller holds mu.
func (v *view) check(err error) {
	if err != nil && v.err == nil {
		v.err = err
		v.stop()
	}
}

// Close implements [tick.Sink].
func (v *view) Close() error { return nil }

// failed shows the last notices and returns the output's error. It is nil if the output's
// reader is gone.
func (v *view) failed() error {
	v.end()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.printNotices()
	if v.err == nil || gone(v.err) {
		return nil
	}
	return &problem{What: "cannot write the output: " + v.err.Error(), Do: "the recording is kept: run ingero explain", Err: v.err}
}
