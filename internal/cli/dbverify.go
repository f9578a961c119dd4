package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store"
)

func dbVerifyCommand(e *Env) *cobra.Command {
	var asJSON, full bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Read all of the database, and say what is damaged",
		Long: `verify reads and decodes every call that is kept, looks whether indexes and numbers fit,
lets SQLite check its file, and compares sums with the calls of some seconds of each
recording, or with --full of all. It changes nothing, and works beside a trace.

It ends with 0 when all is whole, and with 3 when something is damaged. The end of a
segment that a crash cut off, and files that a crash left, are told and are no damage:
nothing that was written whole is missing. ingero db repair puts them away.`,
		Example: "  ingero db verify\n  ingero db verify --full --json",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
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
		return wordsDatabase(path, err)
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

// damageText is a line that says what is wrong with a file, and what is lost.
func damageText(d *store.Damage) string {
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
		b.WriteString("; how many calls are lost is not known")
	}
	return oneLine(b.String())
}

func verifiedText(path string, v *query.Verified) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: read %s and %s in %s of %s (%s); compared the sums of %s.\n", oneLine(path), counted(v.Calls, "call"), counted(v.Waits, "wait"),
		counted(v.Frames, "frame"), counted(v.Segments, "segment"), explain.Bytes(v.Bytes), counted(v.Seconds, "second"))
	for i := range v.Damage {
		fmt.Fprintf(&b, "Damaged: %s\n", damageText(&v.Damage[i]))
	}
	if len(v.Damage) == 0 {
		b.WriteString("All is whole.\n")
	} else {
		fmt.Fprintf(&b, "ingero db repair keeps all that can be read.\n")
	}
	note := func(format string, args ...any) {
		fmt.Fprintf(&b, "Note: %s\n", oneLine(fmt.Sprintf(format, args...)))
	}
	if v.Recording {
		note("a trace records meanwhile: the ends of its segments are being written")
	}
	if len(v.Torn) > 0 && !v.Recording {
		for i := range v.Torn {
			note("%s: a crash came while it was written", damageText(&v.Torn[i]))
		}
	}
	if n := len(v.Left); n > 0 {
		note("%s left by processes that were killed: %s", counted(n, "file"), strings.Join(v.Left, ", "))
	}
	if n := len(v.Bad); n > 0 {
		note("%s that a repair has replaced, and may be removed: %s", counted(n, "damaged file"), strings.Join(v.Bad, ", "))
	}
	if v.Lost > 0 {
		note("%s were lost before the last repair", counted(v.Lost, "call"))
	}
	if n := len(v.Newer); n > 0 {
		note("%s of a newer ingero, of which not all can be read", counted(n, "segment"))
	}
	if n := len(v.Unchecked); n > 0 {
		note("the sums of %s could not be compared, for calls of it are missing", counted(n, "recording"))
	}
	return b.String()
}
