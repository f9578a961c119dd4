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

// output makes the file at path, which write fills in by its name or as a writer.
// It is there whole or not at all, and the invoker's. It returns its size.
func (e *Env) output(path string, force bool, write func(*outfile.File) error) (bytes int64, err error) {
	f, err := outfile.Create(path, force)
	if err != nil {
		return 0, wordsExists(path, err)
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
	return s.Size(), wordsExists(path, f.Commit(uid, gid))
}

// toStdout is the name of standard output.
const toStdout = "-"

// isStream tells whether a path is no file to be made, but standard output, a device or a pipe.
func isStream(path string) bool {
	if path == toStdout || path == "/dev/stdout" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/") {
		return true // whatever lies there
	}
	s, err := os.Stat(path)
	return err == nil && !s.Mode().IsRegular() && !s.IsDir()
}

// written has something written to a file or a stream, and returns where that is, in words.
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

func wordsExists(path string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return &problem{What: "file exists: " + path, Do: "choose another name, or replace the file with --force", Err: err}
	}
	return err
}

// every is how often a line of progress is drawn.
const every = 100 * time.Millisecond

// progress is a line on a terminal that says how far something is. Elsewhere it is
// not there.
type progress struct {
	e     *Env
	live  bool
	drawn time.Time
}

func (e *Env) progress() *progress {
	return &progress{e: e, live: isTerminal(e.Stderr, e.Getenv)}
}

// calls says how many there are so far.
func (p *progress) calls(n uint64) {
	if now := time.Now(); p.live && now.Sub(p.drawn) >= every {
		p.drawn = now
		fmt.Fprintf(p.e.Stderr, "\r\x1b[K%s calls ...", explain.Count(n))
	}
}

// end takes the line away.
func (p *progress) end() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.e.Stderr, "\r\x1b[K")
	}
}
