package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ingero/internal/config"
	"ingero/internal/query"
	"ingero/pkg/events"
)

// queryOptions are the flags of query.
type queryOptions struct {
	timeFlags
	whom
	names             []string // --op
	node, session     string
	perProcess, calls bool
	perNode           bool   // of --nodes: keep the machines apart
	by                string // what launches are told apart by
	order             string // of calls
	show              string // a view of what follows from calls
	limit             uint
	timeout           string
	output

	ops  []events.Op // that the names stand for
	view query.StateView
}

// output is the form of what is printed.
type output struct{ json, csv bool }

func (o *output) check(command string) error {
	if o.json && o.csv {
		return usage(command+" --json, or --csv", "--json and --csv cannot be given at once")
	}
	return nil
}

// Orders of single calls.
const (
	bySlowest = "slowest"
	byTime    = "time"
)

// byFunction tells launches apart by the GPU function.
const byFunction = "function"

// byStack sums calls up by the line of code that made them.
const byStack = "stack"

// someCalls is how many calls are listed if nothing is said.
const someCalls = 20

func queryCommand(e *Env) *cobra.Command {
	var o queryOptions
	c := &cobra.Command{
		Use:   "query [flags] [SQL]",
		Short: "Say how often operations were called and how long they took, list calls, show memory and graphs, or run SQL",
		Long: `query reads what was recorded, also while it is being recorded, and changes nothing. It
prints of each operation how many calls there were, how long they took in all, and
quantiles; what took most time comes first. --calls lists the calls one by one.

--show tells what follows from the calls, as far as it is known: ` + viewsHelp() + `.
It is the last state of each process; of what has times, what was in use in the window.

Without a time it takes all of the latest recording. --since, --from and --to take all
recordings of that time; ` + timesHelp + `. --session names one recording.

With SQL it runs that statement instead: it can read every table and change nothing, and
is cut short where it returns too much or takes too long. ingero sql lists the tables.

With --nodes it asks the ingero dashboard of other machines. Counts, times and quantiles are
of all of them together; so are the rows of SQL that groups and sums up, and others have the
machine as their first column. A machine that does not answer, or late, or whose clock is
off by 10 ms, is told on standard error; the others' answers are shown (docs/guides/fleet.md).

Which database was read, and what of it was missing, damaged, cut or thinned, goes to
standard error; --json has it, too. A time in JSON and CSV is in UTC, a duration in
nanoseconds.`,
		Example: `  ingero query --since 1h
  ingero query --since 1h --pid 4821,5032 --per-process
  ingero query --since 30m --op cudaMemcpy --json
  ingero query --since 1h --pod train-0 --namespace ml
  ingero query --by function
  ingero query --calls --op cudaStreamSync --limit 5
  ingero query --show memory
  ingero query --from 15:40 --to 15:45 --csv > ops.csv
  ingero query "SELECT node, source, count(*) FROM events GROUP BY node, source"
  ingero query --nodes gpu-1:8080,gpu-2:8080 --token-file token "SELECT node, count(*) FROM events GROUP BY node"`,
		Args: oneStatement,
	}
	flags := config.Bind(c)
	f := c.Flags()
	o.timeFlags.bind(f)
	o.bindCalls(f)
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		if asksFleet(s) {
			return e.queryNodes(c, s, &o, args)
		}
		if o.perNode {
			return usage("name the machines: --nodes a:8080,b:8080", "--per-node is for --nodes")
		}
		if len(args) > 0 {
			return e.querySQL(c, s, &o, args[0])
		}
		return e.query(c.Context(), s, &o)
	}
	return c
}

// bindCalls binds what says of which calls, and how they are shown.
func (o *queryOptions) bindCalls(f *pflag.FlagSet) {
	o.whom.bind(f)
	f.StringSliceVar(&o.names, "op", nil, "these operations only: cudaMemcpyAsync or cudaMemcpyAsync,cuMemAlloc")
	f.StringVar(&o.node, "node", "", "what was recorded on this machine only")
	f.StringVar(&o.session, "session", "", "of this recording only, by its id in the table sessions")
	f.BoolVar(&o.perProcess, "per-process", false, "count each process by itself")
	f.BoolVar(&o.perNode, "per-node", false, "with --nodes: keep the machines apart")
	f.StringVar(&o.by, "by", "", "count launches by function: what GPU functions (kernels) were launched; sum calls up by stack: the lines of code that made them")
	f.BoolVar(&o.calls, "calls", false, "list single calls")
	f.StringVar(&o.show, "show", "", "show what follows from calls: "+strings.Join(viewNames(), ", "))
	f.StringVar(&o.order, "order", bySlowest, "which calls are listed: the slowest, or by time the first")
	f.UintVar(&o.limit, "limit", 0, "list so many calls or rows at most; 0: 20 calls, 10,000 rows")
	f.StringVar(&o.timeout, "timeout", "30s", "how long the SQL may take")
	f.BoolVar(&o.json, "json", false, "print it as JSON; of calls one a line")
	f.BoolVar(&o.csv, "csv", false, "print it as CSV")
}

func oneStatement(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage(c.CommandPath()+` "SELECT ..."`, "there are %d arguments; the statement must be one: put it in quotes", len(args))
	}
	return nil
}

func (e *Env) query(ctx context.Context, c *config.Config, o *queryOptions) (err error) {
	w, err := o.parse(e.now(o.utc))
	if err != nil {
		return err
	}
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	zone := e.zone(o.utc)
	a, err := o.ask(ctx, r, &w, zone)
	if err != nil {
		return wordsDatabase(r.Path(), err)
	}
	a.whole = !isTerminal(e.Stdout, e.Getenv)
	show := o.table
	switch {
	case o.calls:
		show = o.list
	case o.show != "":
		show = o.state
	case o.by == byStack:
		show = o.sites
	}
	text, err := show(ctx, r, a, zone)
	if err == nil {
		_, err = e.Stdout.Write(text)
	}
	if err != nil {
		return err
	}
	for _, n := range a.notes(zone) {
		e.note("Note: %s", n)
	}
	return nil
}

// parse makes sense of the flags.
func (o *queryOptions) parse(now time.Time) (window, error) {
	if err := o.check("ingero query"); err != nil {
		return window{}, err
	}
	if o.order != bySlowest && o.order != byTime {
		return window{}, usage("--order slowest, or --order time", "--order cannot be %q", o.order)
	}
	if o.by != "" && o.by != byFunction && o.by != byStack {
		return window{}, usage("--by function, or --by stack", "--by cannot be %q", o.by)
	}
	if o.by != "" && o.calls {
		return window{}, usage("ingero query --by function", "--by and --calls cannot be given at once")
	}
	if !o.calls && o.limit > 0 {
		return window{}, usage("ingero query --calls --limit 5", "--limit is for --calls and SQL")
	}
	if err := o.parseView(); err != nil {
		return window{}, err
	}
	var err error
	if o.ops, err = opsNamed(o.names); err != nil {
		return window{}, err
	}
	return o.window(now)
}

// opsNamed returns the operations that names stand for.
func opsNamed(names []string) ([]events.Op, error) {
	var out []events.Op
	for _, name := range names {
		ops := events.OpsNamed(strings.TrimSpace(name))
		if len(ops) == 0 {
			return nil, usage(likeOp(name), "--op cannot be %q: no operation has that name", name)
		}
		for _, op := range ops {
			if !slices.Contains(out, op) {
				out = append(out, op)
			}
		}
	}
	return out, nil
}

// likeOp names operations that may have been meant.
func likeOp(name string) string {
	const most = 3
	var like []string
	for i := range events.Catalog {
		n := events.Catalog[i].Name
		if name != "" && strings.Contains(strings.ToLower(n), strings.ToLower(name)) && len(like) < most {
			like = append(like, n)
		}
	}
	if len(like) > 0 {
		return "did you mean " + strings.Join(like, ", ") + "?"
	}
	return "ingero query shows those that were called"
}
