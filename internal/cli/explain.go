package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// recent is how much of the latest recording is explained when nothing is said.
const recent = 5 * time.Minute

// explainOptions are the flags of explain.
type explainOptions struct {
	since, from, to string
	last            uint
	pids            []uint
	json            bool
	tables          bool // --per-process
	stored          bool // --chains
}

func explainCommand(e *Env) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain",
		Short: "Say what slowed the jobs that were recorded, who did it, and where the time went",
		Long: `explain plays a recording through the same analysis that a live trace has and tells what
was lost: for each cause how much, who did it, when, what it was not, and what to type.
Of processes that lost something it says where their time went. When nothing was lost it
says so and stops.

--per-process adds every process and operation: how many calls there were, how many
failed, how long they took, and what their threads did meanwhile. --json has all of it.

Without a time it takes the last 5 minutes of the latest recording. --since, --from
and --to take all recordings of that time; a time is 15:40, 15:40:30, "2026-01-02
15:40" or RFC 3339. Counts of a whole recording are exact; those of a part are made
from the records of its calls.`,
		Example: `  ingero explain
  ingero explain --since 1h --pid 4821
  ingero explain --from 15:40 --to 15:45
  ingero explain --per-process
  ingero explain --chains --since 1w     the causes that traces have found, without another look
  ingero explain --last 100 --json`,
		Args: noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.StringVar(&o.since, "since", "", "what was recorded in this last time: 30s, 1h30m, 2d, 1w")
	f.StringVar(&o.from, "from", "", "what was recorded from this time on")
	f.StringVar(&o.to, "to", "", "what was recorded before this time")
	f.UintVar(&o.last, "last", 0, "the last calls of the latest recording, so many")
	f.UintSliceVarP(&o.pids, "pid", "p", nil, "these processes only: 4821 or 4821,5032")
	f.BoolVar(&o.tables, "per-process", false, "add where the time went and the operations, process by process")
	f.BoolVar(&o.stored, "chains", false, "tell the causes that were found while it was recorded; analyse nothing again")
	f.BoolVar(&o.json, "json", false, "print it as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.explain(c.Context(), s, o)
	}
	return c
}

func (e *Env) explain(ctx context.Context, c *config.Config, o explainOptions) (err error) {
	w, err := o.window(time.Now())
	if err != nil {
		return err
	}
	r, err := query.Open(c.DB)
	if err != nil {
		return wordsDatabase(c.DB, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sums, err := w.read(ctx, r, o)
	if err != nil {
		return wordsDatabase(c.DB, err)
	}
	in := joined(sums)
	in.Source, in.Remarks = r.Path(), remarks(sums)
	for _, s := range sums {
		if err := e.causes(ctx, r, s, in, &o); err != nil {
			return wordsDatabase(c.DB, err)
		}
	}
	sortChains(in.Chains)
	if o.json {
		text, err := explain.ReportJSON(in)
		return errors.Join(err, e.printf("%s\n", text))
	}
	if o.stored && len(in.Chains) == 0 {
		return e.printf("No cause of lost time was found while this was recorded.\n")
	}
	detail := explain.Brief
	if o.tables {
		detail = explain.Tables
	}
	return e.tell(e.Stdout, in, detail)
}

// causes adds what slowed the processes of a recording, and where their time went.
func (e *Env) causes(ctx context.Context, r *query.Reader, s *query.Summary, in *explain.Input, o *explainOptions) error {
	f := query.Filter{Session: s.Session.ID, From: s.From, To: s.To}
	for _, pid := range o.pids {
		f.PIDs = append(f.PIDs, uint32(pid))
	}
	stored := func() error {
		chains, err := r.Chains(ctx, f)
		in.Chains = append(in.Chains, chains...)
		return err
	}
	if o.stored {
		return stored()
	}
	c, err := analyse(ctx, r, &s.Session, s.From, s.To, e.logger(e.debug))
	switch {
	case err != nil:
		return err
	case c == nil: // its calls are gone
		return stored()
	}
	c.ledger(in, f.PIDs)
	return nil
}

// wordsDatabase says what to do when there is nothing to read.
func wordsDatabase(path string, err error) error {
	if errors.Is(err, query.ErrNoDatabase) || errors.Is(err, query.ErrNoSession) {
		return &problem{What: "nothing has been recorded yet in " + path, Do: "record something: sudo ingero trace; or name another database with --db PATH", Err: err}
	}
	return err
}

// window is what is to be explained.
type window struct {
	from, to time.Time // zero: the latest recording's last minutes
	latest   bool
}

// window makes times of the flags.
func (o *explainOptions) window(now time.Time) (window, error) {
	var w window
	var err error
	ways := 0
	for _, given := range []bool{o.since != "", o.from != "" || o.to != "", o.last > 0} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		return w, usage("give one of them", "--since, --last, and --from with --to are three ways to say what to explain")
	case o.since != "":
		d, err := config.ParseDuration(o.since)
		if err != nil || d <= 0 {
			return w, usage("ingero explain --since 1h30m", "--since cannot be %q: it must be a duration", o.since)
		}
		w.from, w.to = now.Add(-d), now
	case o.from != "" || o.to != "":
		w.to = now
		if o.from != "" {
			if w.from, err = parseTime(o.from, now); err != nil {
				return w, usage("ingero explain --from 15:40 --to 15:45", "--from cannot be %q: it must be a time", o.from)
			}
		}
		if o.to != "" {
			if w.to, err = parseTime(o.to, now); err != nil {
				return w, usage("ingero explain --from 15:40 --to 15:45", "--to cannot be %q: it must be a time", o.to)
			}
		}
		if !w.from.Before(w.to) {
			return w, usage("ingero explain --from 15:40 --to 15:45", "--from must be before --to")
		}
	default:
		w.latest = true
	}
	return w, nil
}

// parseTime reads a time of the reader's zone. One without a date is the last
// such time of day that has been.
func parseTime(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			y, m, d := now.Date()
			t = time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
			if t.After(now) {
				t = time.Date(y, m, d-1, t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location())
			}
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time", s)
}

// read asks the database about the window, recording by recording.
func (w *window) read(ctx context.Context, r *query.Reader, o explainOptions) ([]*query.Summary, error) {
	sessions, err := r.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if len(sessions) == 0 {
		return nil, query.ErrNoSession
	}
	f := query.Filter{}
	for _, pid := range o.pids {
		f.PIDs = append(f.PIDs, uint32(pid))
	}
	if w.latest {
		f.Session = sessions[0].ID
		f.From = end(&sessions[0]).Add(-recent)
		if o.last > 0 {
			if f.From, err = startOfLast(ctx, r, &sessions[0], f, int(o.last)); err != nil {
				return nil, err
			}
		}
		s, err := summaryOf(ctx, r, f)
		return []*query.Summary{s}, err
	}
	var out []*query.Summary
	for i := len(sessions) - 1; i >= 0; i-- { // the oldest first
		if end(&sessions[i]).Before(w.from) || !sessions[i].Started.Before(w.to) {
			continue
		}
		f.Session, f.From, f.To = sessions[i].ID, w.from, w.to
		s, err := summaryOf(ctx, r, f)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		s := &sessions[0]
		return nil, &problem{What: "nothing was recorded in that time in " + r.Path(),
			Do: fmt.Sprintf("the latest recording is of %s to %s", s.Started.Local().Format(time.DateTime), end(s).Local().Format(time.DateTime))}
	}
	return out, nil
}

// end returns up to when a recording goes.
func end(s *query.Session) time.Time {
	if s.Ended.After(s.Updated) {
		return s.Ended
	}
	return s.Updated
}

// summaryOf asks about a part of a recording, or about all of it where its calls
// are gone.
func summaryOf(ctx context.Context, r *query.Reader, f query.Filter) (*query.Summary, error) {
	s, err := r.Summary(ctx, f)
	if errors.Is(err, query.ErrNoCalls) {
		f.From, f.To = time.Time{}, time.Time{}
		return r.Summary(ctx, f)
	}
	return s, err
}

// startOfLast returns when the last n calls of a recording began: it looks back
// twice as far each time until it has that many.
func startOfLast(ctx context.Context, r *query.Reader, s *query.Session, f query.Filter, n int) (time.Time, error) {
	for back := time.Second; ; back *= 2 {
		f.From = end(s).Add(-back)
		all := !f.From.After(s.Started)
		calls, err := r.Calls(ctx, f, 0)
		if err != nil && !errors.Is(err, query.ErrNoCalls) {
			return time.Time{}, err
		}
		if len(calls) >= n {
			return time.Unix(0, nthLast(calls, n)), nil
		}
		if all {
			return time.Time{}, nil
		}
	}
}

// remarks says what a reader must know of the recordings.
func remarks(sums []*query.Summary) []string {
	var out []string
	for _, s := range sums {
		at := end(&s.Session).Local().Format(time.TimeOnly)
		switch s.Session.State {
		case "running":
			out = append(out, "the trace still runs; this is what it had at "+at)
		case "interrupted":
			out = append(out, "the trace was killed; this is what it had at "+at)
		case "full", "failed":
			out = append(out, fmt.Sprintf("recording ended before the trace did, at %s: %s", at, s.Session.Problem))
		}
		if s.Session.Cut {
			out = append(out, "the first of its calls were removed to make room")
		}
		if s.Session.Pruned {
			out = append(out, "its calls are not kept any more, so this is of the whole recording")
		}
		if s.Rebuilt && s.Thinned {
			out = append(out, "not every call of this part was recorded, so its counts are estimates")
		}
		if s.Torn > 0 && s.Session.State != "running" {
			out = append(out, fmt.Sprintf("a crash cut off the last %s of the recording", explain.Bytes(s.Torn)))
		}
		if s.Damage != "" {
			out = append(out, "the recording cannot be read to its end: "+s.Damage)
		}
	}
	return out
}

// joined makes one report's input of what several recordings say.
func joined(sums []*query.Summary) *explain.Input {
	in := &explain.Input{From: sums[0].From, To: sums[0].To, Node: sums[0].Session.Node, Gaps: tick.Gaps{}}
	drops := map[string]int{}
	for _, s := range sums {
		if s.From.Before(in.From) {
			in.From = s.From
		}
		if s.To.After(in.To) {
			in.To = s.To
		}
		in.Processes = append(in.Processes, s.Processes...)
		in.Ops = append(in.Ops, s.Ops...)
		in.Reports = append(in.Reports, s.Reports...)
		in.Gaps.Merge(s.Gaps)
		for _, d := range s.Drops {
			at, known := drops[d.Reason]
			if !known {
				at = len(in.Drops)
				drops[d.Reason] = at
				in.Drops = append(in.Drops, d)
				continue
			}
			in.Drops[at].Count += d.Count
		}
	}
	return in
}

// nthLast returns when the nth of calls began, counted from the last.
func nthLast(calls []events.Call, n int) int64 {
	starts := make([]int64, len(calls))
	for i := range calls {
		starts[i] = calls[i].Start
	}
	slices.Sort(starts)
	return starts[len(starts)-n]
}
