package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/outfile"
)

// output creates the file at path; write fills it by name or as a writer. The file appears
// only when it is complete, and belongs to the invoker. output returns its size in bytes.
func (e *Env) output(path string, force bool, write func(*outfile.File) error) (bytes int64, err error) {
	f, err := outfile.Create(path, force)
	if err != nil {
		return 0, existsProblem(path, err)
	}
	defer f.Discard()
	if err := write(f); err != nil {
		if errors.Is(err, context.Canceled) {
			err = &problem{What: "stopped before the output was complete, so there is no " + path, Err: err}
		}
		return 0, err
	}
	s, err := f.Stat()
	if err != nil {
		return 0, err
	}
	uid, gid := -1, -1
	if who := e.invoker(); who.Sudo {
		uid, gid = int(who.UID), int(who.GID)
	}
	return s.Size(), existsProblem(path, f.Commit(uid, gid))
}

// toStdout is the file name for standard output.
const toStdout = "-"

// isStream reports whether path is standard output, a device or a pipe, not a regular file.
func isStream(path string) bool {
	if path == toStdout || path == "/dev/stdout" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/") {
		return true // whatever file it refers to
	}
	s, err := os.Stat(path)
	return err == nil && !s.Mode().IsRegular() && !s.IsDir()
}

// written calls write with a file or a stream, and returns a description of the destination.
func (e *Env) written(path string, force bool, write func(*os.File) error) (to string, err error) {
	switch {
	case path == toStdout || path == "/dev/stdout":
		return "", write(e.Stdout)
	case isStream(path):
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return "", err
		}
		return " to " + path, errors.Join(write(f), f.Close())
	}
	bytes, err := e.output(path, force, func(f *outfile.File) error { return write(f.File) })
	return fmt.Sprintf(" to %s (%s)", path, explain.Bytes(bytes)), err
}

func existsProblem(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return &problem{What: "file exists: " + path, Do: "choose another name, or replace the file with --force", Err: err}
	}
	return err
}

// every is the minimum time between two redraws of the progress line.
const every = 100 * time.Millisecond

// progress is a progress line on a terminal. It draws nothing if standard error is not a terminal.
type progress struct {
	e     *Env
	live  bool
	drawn time.Time
}

func (e *Env) progress() *progress {
	return &progress{e: e, live: isTerminal(e.Stderr, e.Getenv)}
}

// calls draws the number of calls so far.
func (p *progress) calls(n uint64) {
	if now := time.Now(); p.live && now.Sub(p.drawn) >= every {
		p.drawn = now
		fmt.Fprintf(p.e.Stderr, "\r\x1b[K%s calls ...", explain.Count(n))
	}
}

// end erases the line.
func (p *progress) end() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.e.Stderr, "\r\x1b[K")
	}
}
