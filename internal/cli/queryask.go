package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store"
)

// answerData is the data that an answer is made from.
type answerData struct {
	sessions []query.Session
	facts    []*query.Summary // one per session
	from, to time.Time        // recorded time in the window
	cover    query.Coverage
	cut      []string // why rows are left out
	path     string
	whole    bool           // do not truncate values
	filters  []query.Filter // one per session
}

// find finds the recordings in the window, and the filter of calls for each.
func (o *queryOptions) find(ctx context.Context, r *query.Reader, w *window, zone *time.Location) (*answerData, error) {
	all, err := r.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if all, err = o.recordings(all, r.Path()); err != nil {
		return nil, err
	}
	a := &answerData{path: r.Path()}
	if a.sessions, err = w.sessions(all, r.Path(), zone); err != nil {
		return nil, err
	}
	if err := r.CheckRecorded(ctx, a.sessions, o.numbers()); err != nil {
		return nil, err
	}
	for i := range a.sessions {
		s := &a.sessions[i]
		facts, err := r.Summary(ctx, query.Filter{Session: s.ID})
		if err != nil {
			return nil, err
		}
		a.facts = append(a.facts, facts)
		pids, err := o.of(ctx, r, s.ID)
		if err != nil {
			return nil, err
		}
		a.filters = append(a.filters, query.Filter{Session: s.ID, PIDs: pids, Ops: o.ops, Labels: o.with, From: w.from, To: w.to})
		from, to := s.Started, end(s)
		if w.from.After(from) {
			from = w.from
		}
		if !w.to.IsZero() && w.to.Before(to) {
			to = w.to
		}
		if a.from.IsZero() || from.Before(a.from) {
			a.from = from
		}
		if to.After(a.to) {
			a.to = to
		}
	}
	return a, nil
}

// recordings selects the recordings of --node and --session.
func (o *queryOptions) recordings(all []query.Session, path string) ([]query.Session, error) {
	if len(all) == 0 || o.node == "" && o.session == "" {
		return all, nil
	}
	out := slices.DeleteFunc(slices.Clone(all), func(s query.Session) bool {
		return o.node != "" && s.Node != o.node || o.session != "" && s.ID != o.session
	})
	if len(out) > 0 {
		return out, nil
	}
	var there []string
	for i := range all {
		name := all[i].ID
		if o.session == "" {
			name = all[i].Node
		}
		if !slices.Contains(there, name) && len(there) < 3 {
			there = append(there, name)
		}
	}
	what := "no recording in " + path
	if o.session != "" {
		what += " has the ID " + o.session
	}
	if o.node != "" {
		what += " is of node " + o.node
	}
	return nil, &problem{What: what, Do: "recorded: " + strings.Join(there, ", ")}
}

// covered adds the coverage of a partial answer.
func (a *answerData) covered(c query.Coverage) { a.cover.Add(c) }

// notes returns warnings about missing or inexact data.
func (a *answerData) notes(zone *time.Location) []string {
	out := append(coverageNotes(&a.cover), a.cut...)
	var lost uint64
	for i, s := range a.facts {
		lost += explain.Lost(s.Drops)
		if x := &a.sessions[i]; x.State == "full" || x.State == "failed" {
			out = append(out, fmt.Sprintf("recording ended before the trace, at %s: %s", clockText(end(x).In(zone)), x.Problem))
		}
	}
	switch {
	case lost > 0 && !a.cover.Records:
		out = append(out, explain.Count(lost)+" records were lost in these recordings: counts and sums include those calls, durations do not")
	case lost > 0:
		out = append(out, explain.Count(lost)+" records were lost in these recordings, so the counts may be low; for exact counts: ingero explain --per-process")
	}
	return out
}

// coverageNotes describes the coverage of an answer that is made from records.
func coverageNotes(c *query.Coverage) []string { return explain.CoverageNotes(c) }

// gone returns the error for recorded calls that are missing or deleted.
func (a *answerData) gone() error {
	if dir := store.LogDir(a.path); !isThere(dir) {
		return &problem{What: "the calls are missing: " + dir + " does not exist", Do: "copy that directory along with the database; ingero backup does this"}
	}
	return &problem{What: "the calls of that time have been removed", Do: "ingero explain --per-process still shows the sums of whole recordings"}
}
