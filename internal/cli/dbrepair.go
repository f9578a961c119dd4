package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/store"
)

func dbRepairCommand(e *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "repair",
		Short: "Put right what is damaged, and lose nothing that can be read",
		Long: `repair puts away what a crash left, and rewrites damaged segments without what cannot be
read of them; the calls behind keep their numbers. Where the SQLite file is missing, is
damaged, or does not know a recording of which there are segments, it is made anew from
them: counts, processes, sums by time, and calls that stand out are as they were. Chains
are not in segments: they are taken over from the damaged file as far as it can be read,
and ingero explain finds them again.

What was damaged is kept, as NAME.bad. A second repair finds nothing to do. A trace that
records must have ended.`,
		Example: "  ingero db repair\n  ingero db verify --full",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.dbRepair(c.Context(), s, asJSON)
	}
	return c
}

func (e *Env) dbRepair(ctx context.Context, c *config.Config, asJSON bool) error {
	path, err := e.database(c)
	if err != nil {
		return err
	}
	p := e.progress()
	r, err := store.Repair(ctx, path, e.owner(), p.calls)
	p.end()
	if err != nil {
		return wordsKept(err)
	}
	if asJSON {
		return e.json(r)
	}
	return e.printf("%s", repairedText(path, r))
}

func repairedText(path string, r *store.Repaired) string {
	if r.Nothing() {
		return fmt.Sprintf("%s: there is nothing to repair.\n", oneLine(path))
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintln(&b, oneLine(fmt.Sprintf(format, args...))) }
	if n := len(r.Removed); n > 0 {
		line("Removed %s that nobody needed: %s", counted(n, "file"), strings.Join(r.Removed, ", "))
	}
	for i := range r.Cut {
		line("Cut off %s at the end of %s, which a crash left within a frame", explain.Bytes(r.Cut[i].Bytes), r.Cut[i].File)
	}
	for i := range r.Lost {
		line("Took out what cannot be read: %s", damageText(&r.Lost[i]))
	}
	for _, name := range r.Indexed {
		line("Made the index of %s anew; nothing is lost", name)
	}
	if r.Sealed > 0 {
		line("Sealed %s", counted(r.Sealed, "segment"))
	}
	if r.SQLite != "" {
		line("Made the SQLite file anew: %s", r.SQLite)
	}
	if n := len(r.Restored); n > 0 {
		line("Made the rows of %s from segments; chains are not in them: ingero explain finds them again", counted(n, "recording"))
	}
	if n := len(r.Without); n > 0 {
		line("Note: the first calls of %s had been removed: sums by time begin with what is left", counted(n, "recording"))
	}
	if n := len(r.Copied); n > 0 {
		line("Took over %s without segments from the damaged SQLite file", counted(n, "recording"))
	}
	for _, name := range r.Kept {
		line("Kept what was damaged as %s", name)
	}
	return b.String()
}
