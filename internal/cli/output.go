package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
	if path == toStdout || isDescriptor(path) {
		return true // whatever file it refers to
	}
	s, err := os.Stat(path)
	return err == nil && !s.Mode().IsRegular() && !s.IsDir()
}

// isDescriptor reports whether path is an open file of this process.
func isDescriptor(path string) bool {
	return path == "/dev/stdout" || path == "/dev/stderr" || strings.HasPrefix(path, "/dev/fd/") || strings.HasPrefix(path, "/proc/self/fd/")
}

// stream opens a stream for writing. Root opens only devices such as terminals, and pipes of root or the invoker,
// and follows no link: the owner of the directory may have put one there.
func (e *Env) stream(path string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_APPEND
	if os.Geteuid() != 0 || isDescriptor(path) {
		return os.OpenFile(path, flags, 0)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFCHR && (kind != unix.S_IFIFO || st.Uid != 0 && st.Uid != e.invoker().UID) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errNotRoots}
	}
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), flags, 0)
}

var errNotRoots = errors.New("root writes only to regular files with one name, devices, and pipes of its own")

// overwrite opens a file or a stream for writing. It creates a file that does not exist, and truncates one that
// does.
func (e *Env) overwrite(path string) (*os.File, error) {
	switch {
	case path == toStdout || path == "/dev/stdout":
		return e.Stdout, nil
	case isStream(path):
		return e.stream(path)
	}
	flags, root := os.O_WRONLY|os.O_CREATE, os.Geteuid() == 0
	if root {
		flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && root && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1) {
		err = &fs.PathError{Op: "open", Path: path, Err: errNotRoots}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// written calls write with a file or a stream, and returns a description of the destination.
func (e *Env) written(path string, force bool, write func(*os.File) error) (to string, err error) {
	switch {
	case path == toStdout || path == "/dev/stdout":
		return "", write(e.Stdout)
	case isStream(path):
		f, err := e.stream(path)
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
