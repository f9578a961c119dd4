package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/outfile"
	"ingero/internal/query"
)

func backupCommand(e *Env) *cobra.Command {
	var output string
	var force bool
	c := &cobra.Command{
		Use:   "backup",
		Short: "Copy the database to one file, even while a trace records",
		Long: `backup writes all recordings to one file, to archive or to send. Every command that reads
a database opens the file directly: ingero explain --db FILE. A running trace continues;
the file contains its recording up to that moment.`,
		Example: "  ingero backup -o gpu-7.ingero\n  ingero explain --db gpu-7.ingero",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.StringVarP(&output, "output", "o", "", "output file")
	f.BoolVar(&force, "force", false, "replace an existing file")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		if output == "" {
			return usage("ingero backup -o gpu-7.ingero", "no output file given")
		}
		return e.backup(c.Context(), s, output, force)
	}
	return c
}

func (e *Env) backup(ctx context.Context, c *config.Config, path string, force bool) (err error) {
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sessions, err := r.Sessions(ctx)
	if err != nil {
		return err
	}
	var b *query.Backup
	bytes, err := e.output(path, force, func(f *outfile.File) (err error) {
		b, err = r.Backup(ctx, f.Name())
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Stderr, "Wrote %s to %s (%s).\n", counted(len(sessions), "recording"), path, explain.Bytes(bytes))
	if b.Cut > 0 {
		fmt.Fprintf(e.Stderr, "Note: skipped %s at the ends of logs: truncated by a crash, or still being written\n", explain.Bytes(b.Cut))
	}
	return nil
}
