package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
)

// siteSum is the sum of one operation's calls from one line of code. Times are in ns.
type siteSum struct {
	site, op                    string
	calls, wall, wait, runnable uint64
}

// sites sums calls by calling line of code and formats the sums.
func (o *queryOptions) sites(ctx context.Context, r *query.Reader, a *answerData, _ *time.Location) ([]byte, error) {
	type key struct{ site, op string }
	sums := map[key]*siteSum{}
	for i := range a.sessions {
		list, _, cover, err := r.StackSums(ctx, a.filters[i])
		if err != nil {
			return nil, err
		}
		a.covered(cover)
		for j := range list {
			x := &list[j]
			k := key{cmp.Or(x.Site, "(unknown)"), x.Op.String()}
			s := sums[k]
			if s == nil {
				s = &siteSum{site: k.site, op: k.op}
				sums[k] = s
			}
			s.calls, s.wall = s.calls+x.Calls, s.wall+x.Wall
			s.wait, s.runnable = s.wait+x.GPUWait, s.runnable+x.Runnable
		}
	}
	if len(sums) == 0 && len(a.cover.Missing) > 0 {
		return nil, a.gone()
	}
	g := &explain.Grid{Columns: []string{"site", "op", "calls", "wall_ns", "gpu_wait_ns", "runnable_ns"}, Database: a.path, NoTruncate: a.whole}
	all := make([]*siteSum, 0, len(sums))
	for _, s := range sums {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *siteSum) int {
		return cmp.Or(cmp.Compare(b.wall, a.wall), cmp.Compare(b.calls, a.calls), cmp.Compare(a.site, b.site), cmp.Compare(a.op, b.op))
	})
	for _, s := range all {
		g.Rows = append(g.Rows, []any{s.site, s.op, int64(s.calls), int64(s.wall), int64(s.wait), int64(s.runnable)})
	}
	switch {
	case o.json:
		g.Notes = a.notes(time.UTC)
		return explain.GridJSON(g)
	case o.csv:
		return explain.GridCSV(g), nil
	}
	return []byte(explain.GridText(g)), nil
}
