package cli

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/query"
	"ingero/internal/store"
)

func dbCommand(e *Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "db",
		Short: "Inspect, shrink and repair the database",
		Long: `db maintains the database: the SQLite file, and the directory next to it that holds single
calls in segments. info and verify also work while a trace runs; the other commands do not.`,
		Example: "  ingero db info\n  ingero db prune --to 2g",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("ingero db --help lists the commands", "ingero db has no command %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, command := range []func(*Env) *cobra.Command{dbInfoCommand, dbPruneCommand, dbVerifyCommand, dbRepairCommand} {
		c.AddCommand(command(e))
	}
	return c
}

// database returns the path of the configured database. The SQLite file or the segment
// directory exists.
func (e *Env) database(c *config.Config) (string, error) {
	path := e.databasePath(c)
	switch {
	case isFolder(path):
		return "", &problem{What: path + " is a directory, not a database", Do: "name a file with --db PATH"}
	case !isThere(path) && !isThere(store.LogDir(path)):
		return "", databaseProblem(path, query.ErrNoDatabase)
	}
	return path, nil
}

// json prints v as indented JSON.
func (e *Env) json(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// exclusiveProblem adds a remedy to the error of a command that needs exclusive access to the
// database and does not get it.
func exclusiveProblem(err error) error {
	var held *store.LockedError
	var unsafe *store.UnsafeError
	switch {
	case errors.As(err, &held):
		return &problem{What: held.Error(), Do: "end the trace first; ingero status shows it", Err: err}
	case errors.As(err, &unsafe) && unsafe.Do != "":
		return &problem{What: unsafe.Error() + ", so ingero does not write there", Do: unsafe.Do + ", if its content is yours", Err: err}
	case errors.As(err, &unsafe):
		return &problem{What: unsafe.Error() + ", so root does not write there", Do: "run the command as the owner of the database", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &problem{What: err.Error(), Do: "run the command as the owner of the database, or with sudo", Err: err}
	}
	return err
}
