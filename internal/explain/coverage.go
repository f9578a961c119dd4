package explain

import (
	"fmt"
	"math"
	"strings"

	"ingero/internal/query"
	"ingero/internal/tick"
)

// CoverageNotes describes how complete an answer from records is.
func CoverageNotes(c *query.Coverage) []string {
	var out []string
	switch {
	case c.Variance > 0:
		out = append(out, fmt.Sprintf("not every call was recorded: these records represent %s calls, ± %s (standard error). "+
			"sum(weight) estimates the calls of any condition, sqrt(sum(weight * (weight - 1))) is its standard error; op_stats has exact counts",
			Count(uint64(c.Calls)), Count(uint64(math.Ceil(math.Sqrt(c.Variance))))))
	case c.Estimate:
		out = append(out, "not every call was recorded; some records represent several calls, so counts, sums and quantiles are estimates")
	case c.Thinned && len(c.Least) > 0:
		out = append(out, "not every call was recorded; some records represent several calls, so quantiles are estimates")
	case c.Thinned:
		out = append(out, "not every call was recorded; some records represent several calls, so quantiles are estimates; counts and sums are exact")
	}
	if len(c.Least) > 0 {
		out = append(out, "counts are lower bounds, because probes were detached for some time (hot-off): "+strings.Join(c.Least, ", "))
	}
	if len(c.Missing) > 0 {
		out = append(out, "the calls of these recordings were deleted: "+someOf(c.Missing))
	}
	if c.Torn > 0 {
		out = append(out, "a crash truncated the recording: the last "+Bytes(c.Torn)+" are lost")
	}
	for _, d := range c.Damage {
		out = append(out, "parts of a recording cannot be read: "+clean(d))
	}
	return out
}

// someOf names the first few of many.
func someOf(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// uncounted returns the operations with a report of incomplete counts.
func uncounted(reports []tick.Report) map[string]bool {
	out := map[string]bool{}
	for _, r := range reports {
		if r.Kind == tick.LowerBound {
			out[r.Object] = true
		}
	}
	return out
}

// markUncounted marks the operations of a report whose counts are lower bounds.
func markUncounted(r *report, reports []tick.Report) {
	less := uncounted(reports)
	for i := range r.Processes {
		for k := range r.Processes[i].Ops {
			o := &r.Processes[i].Ops[k]
			o.LowerBound = less[o.Op]
		}
	}
}
