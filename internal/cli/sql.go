package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
)

// sqlOptions are the flags of sql.
type sqlOptions struct {
	timeout string
	limit   uint
	output
}

func sqlCommand(e *Env) *cobra.Command {
	var o sqlOptions
	c := &cobra.Command{
		Use:   "sql",
		Short: "Query recordings with SQL, interactively or from a file",
		Long: `sql reads statements, each terminated by a semicolon, and prints their results. Statements
can read every table and change nothing. sql truncates results with too many rows and
stops statements that take too long.

On a terminal, sql keeps a history (~/.ingero/sql_history), completes names with the Tab
key, and stops a statement on Ctrl-C. Otherwise, it reads statements from standard input
and exits at the first error. ` + "`.help`" + ` lists the other commands.`,
		Example: `  ingero sql
  ingero sql --csv < questions.sql
  echo "SELECT uid, node, state FROM sessions;" | ingero sql --json`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(`ingero query "SELECT ..."`, "ingero sql reads statements from standard input, but got %q", args[0])
			}
			return nil
		},
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.StringVar(&o.timeout, "timeout", "30s", "maximum duration of a statement")
	f.UintVar(&o.limit, "limit", 0, "maximum number of rows to print; 0: 10,000")
	f.BoolVar(&o.json, "json", false, "print rows as JSON, like .mode json")
	f.BoolVar(&o.csv, "csv", false, "print rows as CSV, like .mode csv")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.sql(c.Context(), s, o)
	}
	return c
}

func (e *Env) sql(ctx context.Context, c *config.Config, o sqlOptions) (err error) {
	if err := o.check("ingero sql"); err != nil {
		return err
	}
	limits, err := sqlLimits(o.timeout, o.limit)
	if err != nil {
		return err
	}
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	s := &shell{env: e, r: r, limits: limits, form: o.output}
	if !isTerminal(e.Stdin, e.Getenv) {
		return s.run(ctx, &script{bufio.NewReader(e.Stdin)})
	}
	s.person = true
	in, err := e.keyboard(ctx, s.names(ctx))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	e.note(".help lists the commands; end each statement with ;")
	return s.run(ctx, in)
}

// lines is a source of lines with statements.
type lines interface {
	// next returns the next line. more means that the line continues a statement. At the end,
	// next returns io.EOF, with a last line that has no newline.
	next(more bool) (string, error)
	// during calls run, with a context that the source cancels when its user interrupts.
	during(ctx context.Context, run func(context.Context) error) error
}

// errDropped is returned when the user discards the typed text.
var errDropped = errors.New("dropped")

// script reads lines from a file or a pipe.
type script struct{ in *bufio.Reader }

func (s *script) next(bool) (string, error) { return s.in.ReadString('\n') }

func (s *script) during(ctx context.Context, run func(context.Context) error) error { return run(ctx) }

// shell executes statements and commands.
type shell struct {
	env    *Env
	r      *query.Reader
	limits query.SQLLimits
	form   output
	person bool // interactive: continue after errors
}

// errQuit ends the shell.
var errQuit = errors.New("quit")

// run executes the statements and commands of in, until its end.
func (s *shell) run(ctx context.Context, in lines) error {
	text, number, first := "", 0, 0
	for ctx.Err() == nil {
		line, err := in.next(text != "")
		number++
		if errors.Is(err, errDropped) {
			text = ""
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if text == "" {
			first = number
		}
		rest, failed := s.take(ctx, in, text+line, err != nil && !s.person)
		switch {
		case errors.Is(failed, errQuit):
			return nil
		case failed != nil && !s.person:
			return atLine(failed, first)
		case failed != nil && gone(failed):
			return failed
		case failed != nil:
			report(s.env.Stderr, failed, s.env.debug)
		}
		if text = rest; err != nil {
			return nil
		}
	}
	return nil
}

// take executes the complete statements in text and returns the rest. last means that no more
// text follows.
func (s *shell) take(ctx context.Context, in lines, text string, last bool) (rest string, err error) {
	for {
		if strings.TrimSpace(text) == "" {
			return "", nil
		}
		if line := strings.TrimSpace(text); line[0] == '.' {
			line, rest, _ := strings.Cut(line, "\n")
			if err := s.command(ctx, strings.Fields(line)); err != nil {
				return "", err
			}
			text = rest
			continue
		}
		end := statementEnd(text)
		if end == 0 {
			if !last || blank(text) {
				return text, nil
			}
			end = len(text)
		}
		statement := text[:end]
		if text = text[end:]; blank(strings.TrimRight(statement, "; \t\r\n")) {
			continue
		}
		if err := in.during(ctx, func(ctx context.Context) error { return s.statement(ctx, statement) }); err != nil {
			return "", err
		}
	}
}

// statement runs one statement and prints its rows.
func (s *shell) statement(ctx context.Context, text string) error {
	res, err := s.r.SQL(ctx, text, s.limits)
	if err != nil {
		return sqlProblem(err, s.limits.Time)
	}
	if err := s.env.printResult(res, s.r.Path(), s.form); err != nil || !s.person {
		return err
	}
	count := explain.Count(uint64(len(res.Rows))) + " rows"
	if len(res.Rows) == 1 {
		count = "1 row"
	}
	s.env.note("(%s, %s)", count, explain.Duration(int64(res.Took.Round(time.Microsecond))))
	return nil
}

// atLine adds the line number in a script to an error.
func atLine(err error, line int) error {
	var p *problem
	if !errors.As(err, &p) {
		return err
	}
	q := *p
	q.What, q.Code = fmt.Sprintf("line %d: %s", line, p.What), exitFailed
	return &q
}
