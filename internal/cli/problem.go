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

// problem is an error as a person reads it.
type problem struct {
	What string // one line: what happened
	Do   string // one line: why, or what to type; may be empty
	Code int    // 0: exitFailed
	Err  error  // what it came from, for errors.Is
}

// Error returns both lines as one.
func (p *problem) Error() string {
	if p.Do == "" {
		return p.What
	}
	return p.What + ": " + p.Do
}

// Unwrap returns the cause.
func (p *problem) Unwrap() error { return p.Err }

// usage is a problem with the command line.
func usage(do, format string, args ...any) *problem {
	return &problem{What: fmt.Sprintf(format, args...), Do: do, Code: exitUsage}
}

// report prints an error for a person and returns the exit code that goes with
// it. With debug it adds what the words were made from.
func report(w io.Writer, err error, debug bool) int {
	var code exitCode
	if err == nil {
		return exitOK
	}
	if errors.As(err, &code) {
		return int(code)
	}
	if unread(err) {
		return exitOK
	}
	p := inWords(err)
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

// unread tells whether it failed because nobody reads its standard output any more, as with
// | head. Who did has what was wanted.
func unread(err error) bool {
	var p *fs.PathError
	return errors.As(err, &p) && errors.Is(p.Err, unix.EPIPE) && p.Path == os.Stdout.Name()
}

// inWords finds the words for an error: its own, those of the first row of
// known that knows it, or what it says itself.
func inWords(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	for _, row := range known {
		if p := row(err); p != nil {
			p.Err = err
			return p
		}
	}
	return &problem{What: err.Error(), Do: "run the command with --debug for more detail", Err: err}
}

// oneLine makes an error of several lines one, and harmless to a terminal: it
// may hold names that others chose.
func oneLine(s string) string {
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.Join(lines, "; "))
}
