package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/wire"
)

func dbInfoCommand(e *Env) *cobra.Command {
	var asJSON, utc bool
	c := &cobra.Command{
		Use:   "info",
		Short: "Show the content and the size of the database",
		Long: `info shows where the database is, the size of its parts, its recordings, how far back
single calls go, and which time the sums cover. It reads no calls, so it is fast for a
database of any size.`,
		Example: "  ingero db info\n  ingero db info --json | jq .bytes",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&utc, "utc", false, "show times in UTC")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.dbInfo(c.Context(), s, asJSON, utc)
	}
	return c
}

func (e *Env) dbInfo(ctx context.Context, c *config.Config, asJSON, utc bool) (err error) {
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	i, err := r.Info(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return e.json(infoOf(i))
	}
	return e.printf("%s", infoText(i, e.zone(utc)))
}

// infoOf adds the values that infoText computes.
func infoOf(i *query.Info) wire.DatabaseInfo {
	out := wire.DatabaseInfo{Database: i.Database, PerCall: perCall(i), Sessions: []wire.RecordingInfo{}}
	if !i.From.IsZero() {
		out.From = &i.From
	}
	for k := range i.Sessions {
		s := &i.Sessions[k]
		out.Sessions = append(out.Sessions, wire.RecordingInfo{ID: s.ID, Node: s.Node, State: s.State, Started: s.Started, Updated: s.Updated, Records: s.Records, Bytes: s.LogBytes})
	}
	return out
}

// perCall returns the bytes per call, including waits and ticks; 0 without calls.
func perCall(i *query.Info) float64 {
	if i.Calls == 0 {
		return 0
	}
	return float64(i.Sealed.Bytes+i.Hot.Bytes) / float64(i.Calls)
}

func infoText(i *query.Info, zone *time.Location) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	stamp := func(t time.Time) string { return t.In(zone).Format("2006-01-02 15:04:05") }
	held := "none"
	if i.Recording {
		held = "a trace is recording"
	}
	line("Database", "%s (schema %d; times in %s)", oneLine(i.Path), i.Schema, i.From.In(zone).Format("MST"))
	line("Writer", "%s", held)
	line("Size", "%s", explain.Bytes(i.Bytes))
	line("  SQLite", "%s (%s of it unused), write-ahead log %s", explain.Bytes(i.SQLite), explain.Bytes(i.Unused), explain.Bytes(i.WAL))
	line("  Segments", "%s in %s sealed, %s in %d not sealed", explain.Bytes(i.Sealed.Bytes), counted(i.Sealed.Files, "file"), explain.Bytes(i.Hot.Bytes), i.Hot.Files)
	if i.Other.Files > 0 {
		line("  Other", "%s in %s", explain.Bytes(i.Other.Bytes), counted(i.Other.Files, "file"))
	}
	states, order := map[string]int{}, []string{}
	for k := range i.Sessions {
		s := &i.Sessions[k]
		if states[s.State]++; states[s.State] == 1 {
			order = append(order, s.State)
		}
	}
	var parts []string
	for _, s := range order {
		parts = append(parts, fmt.Sprintf("%d %s", states[s], s))
	}
	if n := len(i.Sessions); n > 0 {
		line("Recordings", "%d (%s), from %s to %s", n, strings.Join(parts, ", "), stamp(i.Sessions[n-1].Started), stamp(latest(i.Sessions)))
	} else {
		line("Recordings", "none")
	}
	if i.Calls > 0 {
		line("Calls", "%s kept, from %s on; %.1f B each, with waits and counts", explain.Count(i.Calls), stamp(i.From), perCall(i))
	} else {
		line("Calls", "none kept")
	}
	for k, t := range i.Tiers {
		name := ""
		if k == 0 {
			name = "Sums"
		}
		line(name, "of %-6s %s, %s to %s", time.Duration(t.Seconds*int64(time.Second)).String(), counted(uint64(t.Rows), "row"), stamp(t.From), stamp(t.To))
	}
	return b.String()
}

// latest returns the latest update time of all sessions.
func latest(all []query.Session) (t time.Time) {
	for i := range all {
		if all[i].Updated.After(t) {
			t = all[i].Updated
		}
	}
	return t
}
