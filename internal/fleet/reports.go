package fleet

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"ingero/internal/wire"
)

// Report is what slowed one machine's jobs.
type Report struct {
	*Machine
	JSON   json.RawMessage // as from explain --json
	Text   string
	Chains []wire.ChainSummary // most severe first
	Faults int                 // GPU faults
	// Unexplained are sentences about processes with slow or unfinished steps that no cause explains.
	Unexplained []string
}

// Reports queries each machine's report.
func (f *Fleet) Reports(ctx context.Context, params url.Values, from, to time.Time) ([]Report, []Problem) {
	answers, problems := Query[wire.Explained[json.RawMessage]](ctx, f, Question{Path: "/api/v1/explain", Params: params, From: from, To: to})
	var out []Report
	for i := range answers {
		a := &answers[i]
		var report struct {
			Chains    []wire.ChainSummary
			Xids      []json.RawMessage
			Processes []struct{ Unexplained *wire.Unexplained }
		}
		if err := json.Unmarshal(a.Value.Report, &report); err != nil {
			problems = append(problems, f.problem(a.node, a.Name, errAnswer))
			continue
		}
		for j := range report.Chains {
			c := &report.Chains[j]
			c.ID, c.Severity, c.Comm, c.Headline = printable(c.ID, 64), printable(c.Severity, 8), printable(c.Comm, 16), printable(c.Headline, 200)
		}
		var lines []string
		for line := range strings.SplitSeq(a.Value.Text, "\n") {
			lines = append(lines, printable(line, 400))
		}
		var unexplained []string
		for _, p := range report.Processes {
			if p.Unexplained != nil {
				unexplained = append(unexplained, printable(p.Unexplained.Text, 400))
			}
		}
		out = append(out, Report{a.Machine, a.Value.Report, strings.Join(lines, "\n"), report.Chains, len(report.Xids), unexplained})
	}
	return out, problems
}
