package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
)

// notWithSQL lists the flags that duplicate clauses of a statement.
var notWithSQL = slices.Concat(processFlagNames, []string{"since", "from", "to", "op", "node", "session", "per-process", "calls", "order", "show", "label", "by"})

// querySQL runs a statement and prints what it returns.
func (e *Env) querySQL(c *cobra.Command, s *config.Config, o *queryOptions, text string) (err error) {
	if err := o.sqlFlags(c); err != nil {
		return err
	}
	limits, err := sqlLimits(o.timeout, o.limit)
	if err != nil {
		return err
	}
	r, err := e.read(c.Context(), s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	res, err := r.SQL(c.Context(), text, limits)
	if err != nil {
		return sqlProblem(err, limits.Time)
	}
	return e.printResult(res, r.Path(), o.output)
}

// sqlLimits parses the limits of a statement from the flags.
func sqlLimits(timeout string, rows uint) (query.SQLLimits, error) {
	d, err := config.ParseDuration(timeout)
	if err != nil || d <= 0 {
		return query.SQLLimits{}, usage("--timeout 2m", "--timeout cannot be %q: it must be a duration", timeout)
	}
	return query.SQLLimits{Rows: int(rows), Time: d}, nil
}

// printResult prints the rows of a statement and warnings about missing data.
func (e *Env) printResult(res *query.SQLResult, path string, form output) error {
	return e.printGrid(&explain.Grid{Columns: res.Columns, Rows: res.Rows, Database: path, Cut: res.Cut, Notes: coverageNotes(&res.Coverage)}, form)
}

// printGrid prints rows and warnings about missing data.
func (e *Env) printGrid(g *explain.Grid, form output) error {
	var text []byte
	var err error
	g.NoTruncate = !isTerminal(e.Stdout, e.Getenv)
	switch {
	case form.json:
		text, err = explain.GridJSON(g)
	case form.csv:
		text = explain.GridCSV(g)
	default:
		text = []byte(explain.GridText(g))
	}
	if err != nil {
		return err
	}
	if _, err := e.Stdout.Write(text); err != nil {
		return err
	}
	if g.Cut != "" {
		e.note("Note: truncated after %s rows: %s", explain.Count(uint64(len(g.Rows))), g.Cut)
	}
	for _, n := range g.Notes {
		e.note("Note: %s", n)
	}
	return nil
}

// sqlProblem converts an error of a statement to a problem with a remedy.
func sqlProblem(err error, limit time.Duration) error {
	var wrong *query.SQLError
	switch {
	case errors.As(err, &wrong):
		do := wrong.Do
		if do == "" {
			do = "ingero sql lists the tables (.tables) and their columns (.schema)"
		}
		return &problem{What: "cannot run the statement: " + wrong.What, Do: do, Code: exitUsage, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{What: "the statement timed out after " + explain.Duration(int64(limit)), Do: "narrow the statement down with WHERE, or raise the limit: --timeout 5m", Err: err}
	case errors.Is(err, context.Canceled):
		return &problem{What: "the statement was stopped", Err: err}
	}
	return err
}
