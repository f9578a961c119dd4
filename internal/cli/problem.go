package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// problem is an error with a message and a remedy for a person.
type problem struct {
	What string // one line: what happened
	Do   string // one line: the reason or the remedy; may be empty
	Code int    // 0: exitFailed
	Err  error  // wrapped error, for errors.Is
}

// Error returns both lines joined by a colon.
func (p *problem) Error() string {
	if p.Do == "" {
		return p.What
	}
	return p.What + ": " + p.Do
}

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.Err }

// usage returns a problem with the command line.
func usage(do, format string, args ...any) *problem {
	return &problem{What: fmt.Sprintf(format, args...), Do: do, Code: exitUsage}
}

// report prints an error for a person and returns its exit code. With debug, it also prints
// the wrapped error.
func report(w io.Writer, err error, debug bool) int {
	var code exitCode
	if err == nil {
		return exitOK
	}
	if errors.As(err, &code) {
		return int(code)
	}
	if readerGone(err) {
		return exitOK
	}
	p := problemOf(err)
	fmt.Fprintf(w, "ingero: %s\n", oneLine(p.What))
	if p.Do != "" {
		fmt.Fprintf(w, "        %s\n", oneLine(p.Do))
	}
	if debug && p.Err != nil {
		fmt.Fprintf(w, "        (%s)\n", oneLine(p.Err.Error()))
	}
	if p.Code == 0 {
		return exitFailed
	}
	return p.Code
}

// readerGone reports whether err means that the reader of standard output is gone, as with | head.
// The reader has what it needs, so this is no failure.
func readerGone(err error) bool {
	var p *fs.PathError
	return errors.As(err, &p) && errors.Is(p.Err, unix.EPIPE) && p.Path == os.Stdout.Name()
}

// problemOf converts an error to a problem: the problem that it wraps, the first match in known,
// or its own text.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	for _, row := range knownProblems {
		if p := row(err); p != nil {
			p.Err = err
			return p
		}
	}
	return &problem{What: err.Error(), Do: "run the command with --debug for more detail", Err: err}
}

// oneLine joins the lines of s and replaces control characters, since s may contain names
// that others chose.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.Join(lines, "; "))
}
