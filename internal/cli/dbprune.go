package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store/maintain"
)

// pruneOptions are the flags of db prune.
type pruneOptions struct {
	older, to, session string
	callsOnly, dry     bool
}

func dbPruneCommand(e *Env) *cobra.Command {
	var o pruneOptions
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove old calls, or a recording",
		Long: `prune removes single calls: those older than --older, or the oldest until the database
fits into --to. Counts, distributions and chains stay. --session removes a whole recording
or, with --calls-only, its single calls.

prune requires that no trace records to the database; a trace prunes on its own (--max-db,
--max-age).`,
		Example: "  ingero db prune --older 30d\n  ingero db prune --to 2g --dry-run\n  ingero db prune --session gpu-7-20261121T144100-1f2e3d4c",
		Args:    noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.StringVar(&o.older, "older", "", "remove calls older than this: 30d")
	f.StringVar(&o.to, "to", "", "remove the oldest calls until the database fits into this size: 2g")
	f.StringVar(&o.session, "session", "", "remove this recording, by its ID in the table sessions")
	f.BoolVar(&o.callsOnly, "calls-only", false, "with --session: remove only its single calls and keep the sums")
	f.BoolVar(&o.dry, "dry-run", false, "print what would be removed, and remove nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.dbPrune(c.Context(), s, &o)
	}
	return c
}

func (e *Env) dbPrune(ctx context.Context, c *config.Config, o *pruneOptions) error {
	r, err := e.removal(o)
	if err != nil {
		return err
	}
	if r.Path, err = e.database(c); err != nil {
		return err
	}
	if o.session != "" {
		if err := e.known(ctx, r.Path, o.session); err != nil {
			return err
		}
	}
	done, err := maintain.Remove(ctx, *r)
	if errors.Is(err, fs.ErrNotExist) && o.session != "" {
		return &problem{What: "no calls are left of recording " + o.session, Do: "to remove the rest of the recording, omit --calls-only", Err: err}
	}
	if err != nil {
		return exclusiveProblem(err)
	}
	return e.printf("%s", removedText(r, done))
}

// removal converts the flags to a Removal.
func (e *Env) removal(o *pruneOptions) (*maintain.Removal, error) {
	r := &maintain.Removal{Owner: e.owner(), Session: o.session, CallsOnly: o.callsOnly, DryRun: o.dry}
	given := 0
	for _, f := range []string{o.older, o.to, o.session} {
		if f != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, usage("ingero db prune --older 30d, or --to 2g, or --session ID", "prune requires exactly one of --older, --to and --session")
	case o.callsOnly && o.session == "":
		return nil, usage("omit it: --older and --to remove only calls", "--calls-only requires --session")
	case o.older != "":
		d, err := config.ParseDuration(o.older)
		if err != nil || d <= 0 {
			return nil, usage("--older 30d", "--older cannot be %q: it must be a duration", o.older)
		}
		now := time.Now
		if e.Now != nil {
			now = e.Now
		}
		r.Before = now().Add(-d)
	case o.to != "":
		n, err := config.ParseBytes(o.to)
		if err != nil || n <= 0 {
			return nil, usage("--to 2g", "--to cannot be %q: it must be a size", o.to)
		}
		r.MaxBytes = n
	}
	return r, nil
}

// known returns an error if the database has no recording with this ID.
func (e *Env) known(ctx context.Context, path, id string) (err error) {
	r, err := query.Open(ctx, path)
	if err != nil {
		return databaseProblem(path, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := r.Session(ctx, id); errors.Is(err, query.ErrNoSession) {
		return &problem{What: fmt.Sprintf("no recording %q in %s", id, path), Do: "ingero db info --json lists the recordings", Err: err}
	} else if err != nil {
		return err
	}
	return nil
}

func removedText(o *maintain.Removal, r *maintain.Removed) string {
	did := "Removed"
	if o.DryRun {
		did = "Would remove"
	}
	var b strings.Builder
	switch {
	case len(r.Segments) == 0 && !r.Rows:
		b.WriteString("Nothing to remove.")
	case r.Rows:
		fmt.Fprintf(&b, "%s recording %s, with %s of calls (%s).", did, oneLine(o.Session), counted(len(r.Segments), "segment"), explain.Bytes(r.Bytes))
	default:
		fmt.Fprintf(&b, "%s %s of calls (%s) of %s.", did, counted(len(r.Segments), "segment"), explain.Bytes(r.Bytes), counted(len(r.Sessions), "recording"))
	}
	if !o.DryRun {
		fmt.Fprintf(&b, " The database is now %s, from %s before.", explain.Bytes(r.After), explain.Bytes(r.Before))
	}
	b.WriteByte('\n')
	if o.MaxBytes > 0 && r.After > o.MaxBytes {
		fmt.Fprintf(&b, "Note: that is more than %s: the rest is not calls; to remove it, use --session\n", explain.Bytes(o.MaxBytes))
	}
	return b.String()
}
