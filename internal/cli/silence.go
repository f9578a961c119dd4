package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/mute"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/tick"
	"ingero/internal/wire"
)

// silenceOptions are the flags of silence.
type silenceOptions struct {
	length, reason, remove string
	list, json             bool
}

func silenceCommand(e *Env) *cobra.Command {
	o := silenceOptions{length: "2h"}
	c := &cobra.Command{
		Use:   "silence [CHAIN | RULE | RULE@CULPRIT]",
		Short: "Hide a known cause of lost time for a while",
		Long: `silence hides a known cause from trace, explain, top and summary: one chain by its ID, all
causes that a rule finds, or those that a rule finds for one culprit. It takes effect
immediately, even for a running trace. ingero still detects and records the cause, and
reports mention that it is hidden. When the silence expires, the cause is shown again.`,
		Example: `  ingero silence cpu-taken@backup --for 2h --reason "nightly backup"
  ingero silence c-7f3a12bc --for 30m
  ingero silence lock-wait --for 1w
  ingero silence --list
  ingero silence --remove lock-wait`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.StringVar(&o.length, "for", o.length, "duration of the silence: 30m, 2h, 1w")
	f.StringVar(&o.reason, "reason", "", "reason, shown in reports")
	f.StringVar(&o.remove, "remove", "", "remove this silence")
	f.BoolVar(&o.list, "list", false, "list the silences")
	f.BoolVar(&o.json, "json", false, "with --list: print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		ways := len(args)
		for _, given := range []bool{o.list, o.remove != ""} {
			if given {
				ways++
			}
		}
		switch {
		case ways != 1:
			return usage("ingero silence RULE --for 2h, or --list, or --remove RULE", "silence requires a chain, a rule, --list or --remove")
		case o.list:
			return e.silences(c.Context(), s, o.json)
		case o.remove != "":
			return e.unsilence(s, o.remove)
		}
		return e.silence(s, args[0], &o)
	}
	return c
}

func (e *Env) silence(c *config.Config, what string, o *silenceOptions) error {
	if err := mute.Check(what); err != nil {
		return usage("ingero explain shows chain IDs and rules; RULE@CULPRIT is a rule and the name of a program", "%v", err)
	}
	d, err := config.ParseDuration(o.length)
	if err != nil || d <= 0 {
		return usage("ingero silence "+what+" --for 2h", "--for cannot be %q: it must be a duration", o.length)
	}
	now := e.now(false)
	s := tick.Silence{What: what, Since: now, Until: now.Add(d), Reason: oneLine(o.reason), Who: e.invoker().Name}
	if _, err := store.Silence(store.Silencing{Path: c.DB, Owner: e.owner(), Now: now, Add: &s}); err != nil {
		return err
	}
	return e.printf("%s is silenced until %s\n", what, untilText(s.Until, now))
}

func (e *Env) unsilence(c *config.Config, what string) error {
	removed := false
	if isThere(c.DB) {
		var err error
		if removed, err = store.Silence(store.Silencing{Path: c.DB, Owner: e.owner(), Now: e.now(false), Remove: what}); err != nil {
			return err
		}
	}
	if !removed {
		return &problem{What: what + " is not silenced", Do: "ingero silence --list lists the silences"}
	}
	return e.printf("%s is shown again\n", what)
}

// silences lists the silences.
func (e *Env) silences(ctx context.Context, c *config.Config, asJSON bool) (err error) {
	var all []tick.Silence
	now := e.now(false)
	if isThere(c.DB) {
		r, err := query.Open(ctx, c.DB)
		if err != nil {
			return databaseProblem(c.DB, err)
		}
		all, err = r.Silences(ctx, now)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	if asJSON {
		out := []wire.Silence{}
		for _, s := range all {
			out = append(out, wire.Silence{What: s.What, Since: s.Since.UTC(), Until: s.Until.UTC(), Reason: s.Reason, Who: s.Who})
		}
		return e.json(out)
	}
	if len(all) == 0 {
		return e.printf("Nothing is silenced.\n")
	}
	var b strings.Builder
	for _, s := range all {
		line := fmt.Sprintf("%s  until %s", s.What, untilText(s.Until, now))
		if s.Who != "" {
			line += ", by " + s.Who
		}
		if s.Reason != "" {
			line += ": " + s.Reason
		}
		b.WriteString(oneLine(line) + "\n")
	}
	return e.printf("%s", b.String())
}

// untilText formats a future time, with its date if it is not today.
func untilText(at, now time.Time) string {
	at = at.In(now.Location())
	if y, m, d := now.Date(); at.Before(time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())) {
		return at.Format("15:04 MST")
	}
	return at.Format("2006-01-02 15:04 MST")
}
