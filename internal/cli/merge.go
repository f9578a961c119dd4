package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/legacy"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/internal/store/maintain"
)

// mergeOptions are the flags of merge.
type mergeOptions struct {
	output, node string
	threshold    string
}

func mergeCommand(e *Env) *cobra.Command {
	o := mergeOptions{threshold: "100ms"}
	c := &cobra.Command{
		Use:   "merge DATABASE...",
		Short: "Copy the recordings of several databases into one",
		Long: `merge copies all recordings of the given databases or backups into another database, and
creates that if necessary. A recording keeps its ID in every copy: merge keeps existing
recordings, updates those that have grown, and changes nothing if you merge a copy.

merge converts databases of ingero 0.9: calls, recordings, the machine's state and the
causes found. It counts and reports data that it cannot convert. Most of these databases
do not name their node; set it with --force-node.

merge checks the clocks. If a clock was set between two recordings, merge reports by how
much the times before and after differ. If jobs on two nodes ran in lockstep, as the ranks
of a training do, merge derives the clock skew from the rhythm of their steps; otherwise,
it reports that the skew is unknown. merge changes no times.`,
		Example: `  ingero merge node-a.db node-b.db -o cluster.db
  ingero merge old.db --force-node gpu-7 -o cluster.db
  ingero explain --db cluster.db --since 1h`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("ingero merge node-a.db node-b.db -o cluster.db", "no database to merge given")
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "", "database to copy into")
	f.StringVar(&o.node, "force-node", "", "node name for databases of ingero 0.9")
	f.StringVar(&o.threshold, "clock-skew-threshold", o.threshold, "warn when clocks differ by more than this")
	c.RunE = func(c *cobra.Command, args []string) error {
		if o.output == "" {
			return usage("ingero merge "+strings.Join(args, " ")+" -o cluster.db", "no output database given")
		}
		d, err := config.ParseDuration(o.threshold)
		if err != nil || d <= 0 {
			return usage("--clock-skew-threshold 100ms", "--clock-skew-threshold cannot be %q: it must be a duration", o.threshold)
		}
		return e.merge(c.Context(), args, o, d)
	}
	return c
}

// merging is the state of a merge.
type merging struct {
	e       *Env
	o       *mergeOptions
	owner   *store.Owner
	temp    string // directory of converted databases, "" if none
	readers []*query.Reader
	sources []maintain.Source
	notes   []string
}

func (e *Env) merge(ctx context.Context, paths []string, o mergeOptions, threshold time.Duration) (err error) {
	m := &merging{e: e, o: &o, owner: e.owner()}
	defer func() { err = errors.Join(err, m.close()) }()
	for _, path := range paths {
		if sameFile(path, o.output) {
			return usage("choose another name for the output", "cannot merge %s into itself", path)
		}
		if err := m.open(ctx, path); err != nil {
			return err
		}
	}
	if o.node != "" && m.temp == "" {
		m.notes = append(m.notes, "--force-node had no effect: none of these databases is of ingero 0.9, and newer ones name their node")
	}
	done, err := maintain.Merge(ctx, o.output, m.owner, m.sources)
	if err != nil {
		return mergeProblem(err)
	}
	out, err := query.Open(ctx, o.output)
	if err != nil {
		return err
	}
	m.readers = append(m.readers, out)
	sessions, err := out.Sessions(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(e.Stderr, mergedText(o.output, done, sessions))
	skews, err := out.Skews(ctx, sessions)
	if err != nil {
		return err
	}
	for _, n := range slices.Concat(m.notes, stepNotes(query.ClockSteps(sessions, threshold)), skewNotes(skews, threshold)) {
		fmt.Fprintf(e.Stderr, "Note: %s\n", oneLine(n))
	}
	return nil
}

// owner returns the owner for new files: the invoker under sudo, else nil.
func (e *Env) owner() *store.Owner {
	if who := e.invoker(); who.Sudo {
		return &store.Owner{UID: who.UID, GID: who.GID}
	}
	return nil
}

// open opens a source database. It converts databases of ingero 0.9.
func (m *merging) open(ctx context.Context, path string) error {
	r, err := query.Open(ctx, path)
	switch {
	case errors.Is(err, query.ErrNoDatabase):
		return &problem{What: "no such database: " + path, Do: "check the name", Err: err}
	case errors.Is(err, store.ErrNotDatabase):
		if r, err = m.convert(ctx, path, err); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	m.readers = append(m.readers, r)
	m.sources = append(m.sources, r.Source())
	return nil
}

// convert converts a database of ingero 0.9, in a temporary directory beside the output.
func (m *merging) convert(ctx context.Context, path string, not error) (_ *query.Reader, err error) {
	old, err := legacy.Open(ctx, path)
	if err != nil { // not a database of 0.9 either
		return nil, not
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	if m.temp == "" {
		if m.temp, err = os.MkdirTemp(filepath.Dir(m.o.output), ".ingero-merge-"); err != nil {
			return nil, err
		}
	}
	to := filepath.Join(m.temp, fmt.Sprintf("%d.db", len(m.readers)))
	done, err := old.Convert(ctx, legacy.Options{Path: to, Node: m.o.node, Owner: m.owner})
	if errors.Is(err, legacy.ErrNoNode) {
		return nil, &problem{What: path + " is of ingero 0.9 and does not name its node", Do: "set it: --force-node NAME", Code: exitUsage, Err: err}
	}
	if err != nil {
		return nil, err
	}
	m.notes = append(m.notes, legacyNotes(path, done)...)
	return query.Open(ctx, to)
}

func (m *merging) close() error {
	var errs []error
	for _, r := range m.readers {
		errs = append(errs, r.Close())
	}
	if m.temp != "" {
		errs = append(errs, os.RemoveAll(m.temp))
	}
	return errors.Join(errs...)
}

// sameFile reports whether two paths name the same file.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// mergeProblem adds a remedy to the error that a trace records to a source.
func mergeProblem(err error) error {
	var held *store.LockedError
	if errors.As(err, &held) {
		return &problem{What: held.Error(), Do: "end the trace first, or merge a copy: ingero backup --db " + held.Path + " -o FILE", Err: err}
	}
	return err
}

// mergedText summarizes the merge.
func mergedText(path string, m *maintain.Merged, sessions []query.Session) string {
	var nodes []string
	for i := range sessions {
		if !slices.Contains(nodes, sessions[i].Node) {
			nodes = append(nodes, sessions[i].Node)
		}
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{len(m.Added), "added"}, {len(m.Replaced), "updated"}, {len(m.Same), "already there"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return fmt.Sprintf("Merged %s into %s: %s; it has %s of %s (%s copied).\n", counted(len(m.Added)+len(m.Replaced)+len(m.Same), "recording"), path,
		strings.Join(parts, ", "), counted(len(sessions), "recording"), counted(len(nodes), "node"), explain.Bytes(m.Bytes))
}

// stepNotes reports which clocks were set.
func stepNotes(steps []query.ClockStep) []string {
	var out []string
	for _, s := range steps {
		way := "forward"
		if s.Step < 0 {
			way = "back"
		}
		out = append(out, fmt.Sprintf("the clock of %s was set %s by %s before %s (or the machine slept): times before and after that differ by as much",
			s.Node, way, explain.Duration(int64(s.Step.Abs())), s.At.Local().Format(time.DateTime)))
	}
	return out
}

// skewNotes reports the clock skew between nodes, or that the skew is unknown.
func skewNotes(skews []query.Skew, threshold time.Duration) []string {
	var out []string
	for _, k := range skews {
		way := "ahead of"
		if k.Ahead < 0 {
			way = "behind"
		}
		switch {
		case !k.Known:
			out = append(out, fmt.Sprintf("the clock skew between %s and %s is unknown: no jobs on them ran in lockstep", k.Node, k.Against))
		case k.Ahead.Abs() >= threshold:
			out = append(out, fmt.Sprintf("the clock of %s was %s that of %s by %s (±%s): their times differ by as much",
				k.Node, way, k.Against, explain.Duration(int64(k.Ahead.Abs())), explain.Duration(int64(k.Within))))
		}
	}
	return out
}

// legacyNotes reports what a conversion did.
func legacyNotes(path string, r *legacy.Report) []string {
	out := []string{fmt.Sprintf("%s is of ingero 0.9: %s converted; ingero 0.9 did not measure where their time went", path, counted(r.Calls, "call"))}
	if r.Summed > 0 {
		out = append(out, path+": "+counted(r.Summed, "more call")+" stored as one-minute sums: counts include them, their quantiles are estimates")
	}
	if len(r.Passed) > 0 {
		var all []string
		for _, p := range r.Passed {
			all = append(all, fmt.Sprintf("%s (%s)", p.What, explain.Count(p.Count)))
		}
		out = append(out, path+": left out, because a recording cannot hold them: "+strings.Join(all, ", "))
	}
	return out
}
