package cli

import (
	"cmp"
	"context"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
)

func viewNames() (out []string) {
	for _, v := range query.StateViews {
		out = append(out, v.Name)
	}
	return out
}

// viewsHelp describes the views.
func viewsHelp() string {
	var b strings.Builder
	for _, v := range query.StateViews {
		b.WriteString("\n    " + v.Name + ": " + v.About)
	}
	return b.String()
}

// parseView finds the view of --show.
func (o *queryOptions) parseView() error {
	if o.show == "" {
		return nil
	}
	if o.calls || o.perProcess || len(o.names) > 0 {
		return usage("ingero query --show memory --pid 4821", "--show cannot be combined with --calls, --per-process or --op")
	}
	v, ok := query.StateViewNamed(o.show)
	if !ok {
		return usage("--show "+strings.Join(viewNames(), ", "), "--show cannot be %q", o.show)
	}
	o.view = v
	return nil
}

// state queries a view derived from calls and formats it.
func (o *queryOptions) state(ctx context.Context, r *query.Reader, a *answerData, zone *time.Location) ([]byte, error) {
	g := &explain.Grid{Database: a.path, NoTruncate: a.whole}
	for i := range a.sessions {
		res, err := r.State(ctx, a.filters[i], o.view)
		if err != nil {
			return nil, err
		}
		g.Columns, g.Rows, g.Cut = res.Columns, append(g.Rows, res.Rows...), cmp.Or(g.Cut, res.Cut)
		a.covered(res.Coverage)
		if res.Cut != "" {
			a.cut = append(a.cut, "truncated: "+res.Cut+"; select fewer with --since, --from, --to or --pid")
		}
	}
	switch {
	case o.json:
		g.Notes = a.notes(zone)
		return explain.GridJSON(g)
	case o.csv:
		return explain.GridCSV(g), nil
	}
	return []byte(explain.GridText(g)), nil
}
