package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/wire"
)

func dbVerifyCommand(e *Env) *cobra.Command {
	var asJSON, full bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Read the whole database and report damage",
		Long: `verify reads and decodes every call, checks indexes and numbers, and runs SQLite's own
check. It compares the sums with the calls for some seconds of each recording, or for all
of them with --full. verify changes nothing and works while a trace runs.

verify exits with code 0 if the database is intact, and 3 if it is damaged. It reports
segments truncated by a crash and files left by a crash, but does not count them as
damage: everything written completely is there. ingero db repair cleans them up.`,
		Example: "  ingero db verify\n  ingero db verify --full --json",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&full, "full", false, "compare the sums of all seconds with their calls")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.dbVerify(c.Context(), s, asJSON, full)
	}
	return c
}

func (e *Env) dbVerify(ctx context.Context, c *config.Config, asJSON, full bool) error {
	path, err := e.database(c)
	if err != nil {
		return err
	}
	p := e.progress()
	v, err := query.Verify(ctx, path, query.VerifyOptions{Full: full, Calls: p.calls})
	p.end()
	if err != nil {
		return databaseProblem(path, err)
	}
	if asJSON {
		err = e.json(v)
	} else {
		err = e.printf("%s", verifiedText(path, v))
	}
	if err == nil && len(v.Damage) > 0 {
		return exitCode(exitDamaged)
	}
	return err
}

// damageText returns one line: what is wrong with a file, and what is lost.
func damageText(d *wire.Damage) string {
	var b strings.Builder
	b.WriteString(d.File)
	if d.Bytes > 0 {
		fmt.Fprintf(&b, ", byte %d, %s", d.At, explain.Bytes(d.Bytes))
	}
	fmt.Fprintf(&b, ": %s", d.What)
	switch {
	case d.Calls > 0:
		fmt.Fprintf(&b, "; %s lost", counted(uint64(d.Calls), "call"))
	case d.Calls < 0:
		b.WriteString("; the number of lost calls is unknown")
	}
	return oneLine(b.String())
}

func verifiedText(path string, v *wire.Verified) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: read %s and %s in %s of %s (%s); compared the sums of %s.\n", oneLine(path), counted(v.Calls, "call"), counted(v.Waits, "wait"),
		counted(v.Frames, "frame"), counted(v.Segments, "segment"), explain.Bytes(v.Bytes), counted(v.Seconds, "second"))
	for i := range v.Damage {
		fmt.Fprintf(&b, "Damaged: %s\n", damageText(&v.Damage[i]))
	}
	if len(v.Damage) == 0 {
		b.WriteString("The database is intact.\n")
	} else {
		fmt.Fprintf(&b, "To repair the database and keep all readable data: ingero db repair\n")
	}
	note := func(format string, args ...any) {
		fmt.Fprintf(&b, "Note: %s\n", oneLine(fmt.Sprintf(format, args...)))
	}
	if v.Recording {
		note("a trace is recording: the ends of its segments are still being written")
	}
	if len(v.Torn) > 0 && !v.Recording {
		for i := range v.Torn {
			note("%s: truncated by a crash", damageText(&v.Torn[i]))
		}
	}
	if n := len(v.Leftovers); n > 0 {
		note("%s left by killed processes: %s", counted(n, "file"), strings.Join(v.Leftovers, ", "))
	}
	if n := len(v.Bad); n > 0 {
		note("%s replaced by a repair; safe to remove: %s", counted(n, "damaged file"), strings.Join(v.Bad, ", "))
	}
	if v.Lost > 0 {
		note("%s were lost before the last repair", counted(v.Lost, "call"))
	}
	if n := len(v.Newer); n > 0 {
		note("%s of a newer ingero; parts of them cannot be read", counted(n, "segment"))
	}
	if n := len(v.Unchecked); n > 0 {
		note("could not compare the sums of %s: calls are missing", counted(n, "recording"))
	}
	return b.String()
}
