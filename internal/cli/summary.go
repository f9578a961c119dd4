package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
)

// summaryOptions are the flags of summary.
type summaryOptions struct {
	timeFlags
	processFlags
	by    []string
	price float64
	json  bool
}

func summaryCommand(e *Env) *cobra.Command {
	var o summaryOptions
	c := &cobra.Command{
		Use:   "summary",
		Short: "Summarize lost time by cause, by culprit and by job",
		Long: `summary adds up the lost time of all recordings in a time range: wall time and GPU time,
by cause, culprit and job. It uses the causes that traces found during recording and
analyzes nothing again, so a summary of a month is cheap. It counts each loss once,
however long its cause lasted, and only the part inside the time range.

GPU time counts each rank of a job and each GPU of a rank. Wall time counts ranks of a job
that wait at the same time once. summary covers only what was recorded.

By default, summary covers all recordings.
` + timesHelp,
		Example: `  ingero summary --since 7d
  ingero summary --since 1d --by culprit
  ingero summary --since 30d --price 2.49
  ingero summary --from "2026-01-02 15:40" --job 4711 --json`,
		Args: noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	o.timeFlags.bind(f)
	o.processFlags.bind(f)
	f.StringSliceVar(&o.by, "by", nil, "summarize only by: "+strings.Join(explain.LostBy, ", "))
	f.Float64Var(&o.price, "price", 0, "price of one GPU hour, to show the cost of the losses")
	f.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.summary(c.Context(), s, o)
	}
	return c
}

func (e *Env) summary(ctx context.Context, c *config.Config, o summaryOptions) (err error) {
	for _, by := range o.by {
		if !slices.Contains(explain.LostBy, by) {
			return usage("choose one of "+strings.Join(explain.LostBy, ", "), "--by cannot be %q", by)
		}
	}
	if o.price < 0 {
		return usage("for example --price 2.49", "--price cannot be negative")
	}
	w, err := o.window(e.now(o.utc))
	if err != nil {
		return err
	}
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	in := &explain.LostInput{Source: r.Path(), Price: o.price, By: o.by}
	if err := lost(ctx, r, &w, &o.processFlags, in); err != nil {
		return databaseProblem(r.Path(), err)
	}
	quiet := filter(c)
	if quiet.Silences, err = r.Silences(ctx, e.now(true)); err != nil {
		return databaseProblem(r.Path(), err)
	}
	hideLostTime(&quiet, e.now(true), in)
	if o.json {
		text, err := explain.LossesJSON(in)
		return errors.Join(err, e.printf("%s", text))
	}
	return e.printf("%s", explain.Losses(in, explain.Options{Location: e.zone(o.utc), NoTruncate: !isTerminal(e.Stdout, e.Getenv)}))
}

// lost reads the input of a summary, recording by recording, since PIDs are valid within one
// recording only.
func lost(ctx context.Context, r *query.Reader, w *window, who *processFlags, in *explain.LostInput) error {
	all, err := r.Sessions(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return query.ErrNoSession
	}
	if err := r.CheckRecorded(ctx, all, who.numbers()); err != nil {
		return err
	}
	w.anchor(all)
	in.From, in.To = w.from, w.to
	for i := range slices.Backward(all) {
		f := query.Filter{Session: all[i].ID, From: w.from, To: w.to}
		if f.PIDs, err = who.of(ctx, r, f.Session); err != nil {
			return err
		}
		losses, err := r.Losses(ctx, f)
		if err != nil {
			return err
		}
		observed, err := r.Observed(ctx, f)
		if err != nil {
			return err
		}
		in.Losses, in.Observed = append(in.Losses, losses...), append(in.Observed, observed...)
	}
	return nil
}
