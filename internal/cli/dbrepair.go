package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/store/maintain"
	"ingero/internal/wire"
)

func dbRepairCommand(e *Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "repair",
		Short: "Repair damage and keep all readable data",
		Long: `repair removes what a crash left behind, and rewrites damaged segments without their
unreadable parts; later calls keep their numbers. If the SQLite file is missing, is
damaged, or lacks a recording that has segments, repair rebuilds it from the segments:
counts, processes, sums by time and notable calls stay the same. Segments contain no
chains: repair copies those that are readable in the damaged file, and ingero explain
finds chains again.

repair keeps damaged files as NAME.bad. A second repair finds nothing to do. repair
requires that no trace records to the database.`,
		Example: "  ingero db repair\n  ingero db verify --full",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
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
	r, err := maintain.Repair(ctx, path, e.owner(), p.calls)
	p.end()
	if err != nil {
		return exclusiveProblem(err)
	}
	if asJSON {
		return e.json(r)
	}
	return e.printf("%s", repairedText(path, r))
}

func repairedText(path string, r *wire.Repaired) string {
	if r.Nothing() {
		return fmt.Sprintf("%s: nothing to repair.\n", oneLine(path))
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintln(&b, oneLine(fmt.Sprintf(format, args...))) }
	if n := len(r.Removed); n > 0 {
		line("Removed %s no longer needed: %s", counted(n, "file"), strings.Join(r.Removed, ", "))
	}
	for i := range r.Cut {
		line("Truncated %s at the end of %s: a crash left an incomplete frame", explain.Bytes(r.Cut[i].Bytes), r.Cut[i].File)
	}
	for i := range r.Lost {
		line("Removed unreadable data: %s", damageText(&r.Lost[i]))
	}
	for _, name := range r.Indexed {
		line("Rebuilt the index of %s; nothing is lost", name)
	}
	if r.Sealed > 0 {
		line("Sealed %s", counted(r.Sealed, "segment"))
	}
	if r.SQLite != "" {
		line("Rebuilt the SQLite file: %s", r.SQLite)
	}
	if n := len(r.Restored); n > 0 {
		line("Rebuilt the rows of %s from segments, without chains; ingero explain finds chains again", counted(n, "recording"))
	}
	if n := len(r.Without); n > 0 {
		line("Note: the first calls of %s were pruned earlier: sums by time begin with the remaining calls", counted(n, "recording"))
	}
	if n := len(r.Copied); n > 0 {
		line("Copied %s without segments from the damaged SQLite file", counted(n, "recording"))
	}
	for _, name := range r.Kept {
		line("Kept the damaged file as %s", name)
	}
	return b.String()
}
