package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
)

// remarks returns the report's notes about the recordings, the earliest first.
func remarks(sums []*query.Summary, zone *time.Location) []string {
	sums = slices.SortedStableFunc(slices.Values(sums), func(a, b *query.Summary) int {
		return a.Session.Started.Compare(b.Session.Started)
	})
	var out []string
	killed, last := 0, ""
	for _, s := range sums {
		if s.Session.State == "interrupted" {
			killed, last = killed+1, clock(end(&s.Session), zone)
		}
	}
	switch {
	case killed == 1:
		out = append(out, "the trace was killed; this is its state at "+last)
	case killed > 1:
		out = append(out, fmt.Sprintf("%d traces were killed, the last at %s; this is their state at that time", killed, last))
	}
	for _, s := range sums {
		out = append(out, remarksOn(s, zone)...)
	}
	return append(out, unrecorded(sums, zone)...)
}

func clock(t time.Time, zone *time.Location) string { return t.In(zone).Format(time.TimeOnly) }

// remarksOn returns the notes about one recording, except that its trace was killed.
func remarksOn(s *query.Summary, zone *time.Location) []string {
	var out []string
	switch s.Session.State {
	case "running":
		out = append(out, "the trace is still running; this is its state at "+clock(end(&s.Session), zone))
	case "full", "failed":
		out = append(out, fmt.Sprintf("recording ended before the trace, at %s: %s", clock(end(&s.Session), zone), s.Session.Problem))
	}
	if s.Session.Cut {
		out = append(out, "its first calls were removed to free space")
	}
	if s.Session.Pruned {
		out = append(out, "its calls have been removed: this report uses the sums made during recording")
	}
	switch {
	case s.Rebuilt && s.Thinned && !s.CountedFrom.IsZero():
		exact := "counts and sums of its operations are exact"
		if less := lowerBounds(s); len(less) > 0 {
			exact += ", except lower bounds of " + strings.Join(less, ", ")
		}
		out = append(out, "not every call of this part was recorded: "+exact+"; quantiles and the time between calls are estimates")
	case s.Rebuilt && s.Thinned:
		out = append(out, "not every call of this part was recorded, so its counts are estimates")
	}
	if from, to := s.CountedFrom, s.CountedTo; !from.IsZero() && (!from.Equal(s.From) || !to.Equal(s.To)) {
		const format = "15:04:05.000"
		out = append(out, fmt.Sprintf("counts are from %s to %s: they are known per tick only", from.In(zone).Format(format), to.In(zone).Format(format)))
	}
	if s.Torn > 0 && s.Session.State != "running" {
		out = append(out, fmt.Sprintf("a crash truncated the last %s of the recording", explain.Bytes(s.Torn)))
	}
	if len(s.Damage) > 0 {
		out = append(out, "cannot read parts of the recording: "+strings.Join(s.Damage, "; "))
	}
	return out
}

// lowerBounds names the operations of a recording that had no probe for some time.
func lowerBounds(s *query.Summary) (names []string) {
	for _, r := range s.Reports {
		called := func(o tick.Op) bool { return o.Op.String() == r.Object }
		if r.Kind == tick.LowerBound && slices.ContainsFunc(s.Ops, called) && !slices.Contains(names, r.Object) {
			names = append(names, r.Object)
		}
	}
	return names
}

// gap is a time without a recording.
type gap struct{ from, to time.Time }

// leastGap is the length of the shortest reported gap. Shorter ones are normal between a trace
// and the next.
const leastGap = time.Second

// text formats the gap, with dates if it spans midnight.
func (g gap) text(zone *time.Location) string {
	from, to := g.from.In(zone), g.to.In(zone)
	format := time.TimeOnly
	if from.Format(time.DateOnly) != to.Format(time.DateOnly) {
		format = time.DateTime
	}
	return "from " + from.Format(format) + " to " + to.Format(format)
}

// unrecorded reports how long each node was not traced between its recordings. sums must be
// sorted by start.
func unrecorded(sums []*query.Summary, zone *time.Location) []string {
	length := func(g gap) time.Duration { return g.to.Sub(g.from) }
	var nodes []string
	last, gaps := map[string]time.Time{}, map[string][]gap{}
	for _, s := range sums {
		node := s.Session.Node
		until, known := last[node]
		if !known {
			nodes = append(nodes, node)
		} else if s.Session.Started.Sub(until) >= leastGap {
			gaps[node] = append(gaps[node], gap{until, s.Session.Started})
		}
		if e := end(&s.Session); e.After(until) {
			last[node] = e
		}
	}
	var out []string
	for _, node := range nodes {
		if len(gaps[node]) == 0 {
			continue
		}
		var sum time.Duration
		for _, g := range gaps[node] {
			sum += length(g)
		}
		longest := slices.MaxFunc(gaps[node], func(a, b gap) int { return cmp.Compare(length(a), length(b)) })
		line := fmt.Sprintf("nothing was recorded for %s, %s", explain.Duration(int64(sum)), longest.text(zone))
		if n := len(gaps[node]); n > 1 {
			line = fmt.Sprintf("nothing was recorded for %s, in %d gaps between traces, the longest %s",
				explain.Duration(int64(sum)), n, longest.text(zone))
		}
		if len(nodes) > 1 {
			line = node + ": " + line
		}
		out = append(out, line)
	}
	return out
}
