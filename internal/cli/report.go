package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/dashboard"
	"ingero/internal/query"
)

// reportOptions are the flags of report.
type reportOptions struct {
	timeFlags
	processFlags
	output        string
	session, node string
	force         bool
}

func reportCommand(e *Env) *cobra.Command {
	var o reportOptions
	c := &cobra.Command{
		Use:   "report",
		Short: "Write a report as one HTML file",
		Long: `report writes the page of ingero dashboard with its data: one HTML file that any browser
opens, even without a network. The page makes no requests, and readers do not need ingero.

By default, report covers the whole latest recording. --since, --from and --to select
another time range.
` + timesHelp + `

The page shows causes, where the time went, latencies, call counts, lines of code, memory
and GPUs, for all processes together and for each of the first eight. It contains no
single calls and runs no SQL. It includes names, command lines and paths of programs, as in
the database, with possible secrets removed from command lines. Its data is limited to
16 MiB; report names anything it leaves out.`,
		Example: `  ingero report -o incident.html
  ingero report -o incident.html --from 15:40 --to 15:55
  ingero report -o job.html --since 1h --pid 4821 --db job.db`,
		Args: noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "", "output file; -: standard output")
	o.timeFlags.bind(f)
	o.processFlags.bind(f)
	f.StringVar(&o.session, "session", "", "only the recording with this ID")
	f.StringVar(&o.node, "node", "", "only recordings of this node")
	f.BoolVar(&o.force, "force", false, "replace an existing file")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		return e.report(c.Context(), s, &o)
	}
	return c
}

func (e *Env) report(ctx context.Context, c *config.Config, o *reportOptions) error {
	if o.output == "" {
		return usage("ingero report -o incident.html", "no output file given")
	}
	at, err := o.window(e.now(o.utc))
	if err != nil {
		return err
	}
	r, err := e.read(ctx, c) // checks that the database is readable
	if err != nil {
		return err
	}
	all, err := r.Sessions(ctx)
	if err != nil {
		return databaseProblem(r.Path(), errors.Join(err, r.Close()))
	}
	at.anchor(all)
	f := query.Filter{Session: o.session, Node: o.node, From: at.from, To: at.to, PIDs: o.numbers()}
	if o.session == "" && (!at.latest || o.node != "") {
		f.Session = query.AllSessions
	}
	if err := errors.Join(r.CheckChosen(ctx, f), r.Close()); err != nil {
		return databaseProblem(r.Path(), err)
	}
	q := dashboard.ReportOptions{From: at.from, To: at.to, Params: o.params()}
	for name, v := range map[string]string{"session": o.session, "node": o.node} {
		if v != "" {
			q.Params.Set(name, v)
		}
	}
	var res *dashboard.ReportResult
	write := func(to io.Writer) (err error) {
		w := bufio.NewWriter(to)
		res, err = dashboard.WriteReport(ctx, w, e.apiOptions(ctx, c), q)
		if errors.Is(err, query.ErrNoSession) && (!at.latest || len(q.Params) > 0) {
			return &problem{What: "no matching recording covers that time", Do: "ingero query shows the latest recording; report covers it without --since, --from and --to", Err: err}
		}
		return errors.Join(databaseProblem(e.databasePath(c), err), w.Flush())
	}
	where, err := e.written(o.output, o.force, func(f *os.File) error { return write(f) })
	if err != nil {
		return err
	}
	zone := e.zone(o.utc)
	fmt.Fprintf(e.Stderr, "Wrote a report of %s to %s%s.\n", res.From.In(zone).Format("2006-01-02 15:04:05"), res.To.In(zone).Format("2006-01-02 15:04:05"), where)
	if len(res.LeftOut) > 0 {
		fmt.Fprintf(e.Stderr, "Note: left out %s, because the file would be too large; report a shorter time.\n", oneLine(strings.Join(res.LeftOut, ", ")))
	}
	for _, m := range res.Missing {
		fmt.Fprintf(e.Stderr, "Note: no answer to %s\n", oneLine(m))
	}
	return nil
}
