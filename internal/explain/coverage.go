package explain

import (
	"fmt"
	"strings"

	"ingero/internal/query"
)

// CoverageNotes says in words how far an answer from records goes.
func CoverageNotes(c *query.Coverage) []string {
	var out []string
	if c.Thinned {
		out = append(out, "not every call was recorded; some stand for several, so quantiles are estimates")
	}
	if len(c.Missing) > 0 {
		out = append(out, "the calls of these recordings are not kept any more: "+someOf(c.Missing))
	}
	if c.Torn > 0 {
		out = append(out, "a crash cut off the last "+Bytes(c.Torn)+" of what was recorded")
	}
	for _, d := range c.Damage {
		out = append(out, "a recording cannot be read to its end: "+clean(d))
	}
	return out
}

// someOf names a few of many.
func someOf(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
