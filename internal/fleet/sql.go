package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"ingero/internal/query"
	"ingero/internal/wire"
)

// Result is a statement's result from several machines.
type Result struct {
	query.SQLResult
	Merged bool // rows are merged; else the first column names each row's machine
}

// SQL runs a statement on all met machines. It merges the answers if that is possible (see
// [query.SplitSQL]) and apart is false; otherwise rows have the machine's name as their first
// column. Limits apply to each machine, and those of rows and bytes to the answer, too.
func (f *Fleet) SQL(ctx context.Context, text string, l query.SQLLimits, apart bool) (*Result, []Problem, error) {
	parts, split := query.SplitSQL(text)
	split = split && !apart
	limit := min(cmp.Or(l.Rows, 10_000), 10_000)
	statement := wire.Statement{SQL: text, Limit: limit, TimeoutMS: min(l.Time, f.o.Timeout*9/10, 30*time.Second).Milliseconds()} // leaves time to report a timeout
	if split {
		statement.SQL, statement.Limit = parts.SQL, 10_000 // groups may span machines
	}
	answers, problems := Query[wire.Rows](ctx, f, Question{Path: "/api/v1/query", Body: statement})
	answers, more := f.proper(answers)
	problems = append(problems, more...)
	out := &Result{Merged: split}
	for i := range answers {
		for _, n := range answers[i].Value.Notes {
			f.note("%s: %s", answers[i].Name, printable(n, 200))
		}
		if cut := answers[i].Value.Cut; cut != "" {
			f.note("%s left out rows: %s", answers[i].Name, printable(cut, 100))
			if split {
				out.Cut = "a node left out groups, so sums may be incomplete"
			}
		}
	}
	if split {
		res, err := parts.Merge(results(answers))
		if err != nil {
			return nil, problems, err
		}
		out.Columns, out.Rows, out.Cut = res.Columns, res.Rows, cmp.Or(out.Cut, res.Cut)
	} else {
		f.concatenate(out, answers)
	}
	if len(out.Rows) > limit {
		out.Rows, out.Cut = out.Rows[:limit], fmt.Sprintf("there are more than %d rows", limit)
	}
	return out, problems, nil
}

// proper returns the answers that are tables; others are problems.
func (f *Fleet) proper(answers []Answer[wire.Rows]) (good []Answer[wire.Rows], problems []Problem) {
	for _, a := range answers {
		if slices.ContainsFunc(a.Value.Rows, func(r wire.Row) bool { return len(r) != len(a.Value.Columns) }) {
			problems = append(problems, f.problem(a.node, a.Name, errAnswer))
			continue
		}
		for i, c := range a.Value.Columns {
			a.Value.Columns[i] = printable(c, 200)
		}
		good = append(good, a)
	}
	return good, problems
}

func results(answers []Answer[wire.Rows]) (out []*query.SQLResult) {
	for i := range answers {
		v := &answers[i].Value
		r := &query.SQLResult{Columns: v.Columns, Cut: v.Cut}
		for _, row := range v.Rows {
			r.Rows = append(r.Rows, row)
		}
		out = append(out, r)
	}
	return out
}

// nodeColumn is the column with a row's machine.
const nodeColumn = "node"

// concatenate appends rows, machine by machine. Machines with other columns, such as those of
// another version, lack the missing ones.
func (f *Fleet) concatenate(out *Result, answers []Answer[wire.Rows]) {
	out.Columns = []string{nodeColumn}
	var columns []string // of the machines; duplicates stay
	for i := range answers {
		v := &answers[i].Value
		switch {
		case columns == nil:
			columns = v.Columns
		case !slices.Equal(columns, v.Columns):
			f.note("%s returned other columns than the other nodes; check that all nodes run the same version", answers[i].Name)
			for _, c := range v.Columns {
				if !slices.Contains(columns, c) {
					columns = append(slices.Clone(columns), c)
				}
			}
		}
	}
	out.Columns = append(out.Columns, columns...)
	for i := range answers {
		v := &answers[i].Value
		same := slices.Equal(v.Columns, columns[:min(len(columns), len(v.Columns))])
		for _, row := range v.Rows {
			line := make([]any, len(out.Columns))
			line[0] = answers[i].Name
			for j, x := range row {
				to := j
				if !same {
					to = slices.Index(columns, v.Columns[j])
				}
				line[to+1] = x
			}
			out.Rows = append(out.Rows, line)
		}
	}
}
