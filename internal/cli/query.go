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
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// queryOptions are the flags of query.
type queryOptions struct {
	timeFlags
	processFlags
	names             []string // --op
	node, session     string
	perProcess, calls bool
	perNode           bool     // with --nodes: separate rows per node
	by                string   // grouping: by function, stack or label
	labels            []string // --label
	order             string   // order of calls
	show              string   // view to derive from the calls
	limit             uint
	timeout           string
	output

	ops  []events.Op // operations with these names
	view query.StateView
	with []query.Label // --label
}

// output is the output format.
type output struct{ json, csv bool }

func (o *output) check(command string) error {
	if o.json && o.csv {
		return usage(command+" --json, or --csv", "--json and --csv cannot be combined")
	}
	return nil
}

// Orders of --calls.
const (
	bySlowest = "slowest"
	byTime    = "time"
)

// byFunction groups launches by GPU function.
const byFunction = "function"

// byLabel groups calls by the value of the label that follows.
const byLabel = "label:"

// byStack groups calls by the calling line of code.
const byStack = "stack"

// someCalls is the default number of listed calls.
const someCalls = 20

var queryLong = `query reads recordings, even while a trace writes them, and changes nothing. For each
operation it prints the number of calls, their total duration and quantiles, the largest
total first. --calls lists single calls.

--show derives further views from the calls, as far as known:
` + viewsHelp() + `

A view shows the last state of each process. Entries with times show what was in use in the
time range.

By default, query covers the whole latest recording. --since, --from and --to select all
recordings of that time, --session one recording.
` + timesHelp + `

With SQL, query runs that statement instead. The statement can read every table and change
nothing. query truncates its result after too many rows, and stops it if it takes too long.
ingero sql lists the tables.

With --nodes, query asks the ingero dashboard of other nodes. Counts, times and quantiles
cover all nodes together. SQL rows that group and aggregate do too; other SQL rows have the
node as their first column. query reports nodes that do not answer, time out, or have a
clock skew above --clock-skew-threshold on standard error, and shows the other answers
(docs/guides/fleet.md).

query names the database it read on standard error, and any data that is missing, damaged,
truncated or sampled; --json includes this. In JSON and CSV, times are in UTC and durations
in nanoseconds.`

func queryCommand(e *Env) *cobra.Command {
	var o queryOptions
	c := &cobra.Command{
		Use:   "query [flags] [SQL]",
		Short: "Show call counts and durations of operations, list calls, show memory and graphs, or run SQL",
		Long:  queryLong,
		Example: `  ingero query --since 1h
  ingero query --since 1h --pid 4821,5032 --per-process
  ingero query --since 30m --op cudaMemcpy --json
  ingero query --since 1h --pod train-0 --namespace ml
  ingero query --by function
  ingero query --label tenant=a --by label:epoch
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
		if queriesFleet(s) {
			return e.queryNodes(c, s, &o, args)
		}
		if o.perNode {
			return usage("name the nodes: --nodes a:8080,b:8080", "--per-node requires --nodes")
		}
		if len(args) > 0 {
			return e.querySQL(c, s, &o, args[0])
		}
		return e.query(c.Context(), s, &o)
	}
	return c
}

// bindCalls binds the flags that select calls and format them.
func (o *queryOptions) bindCalls(f *pflag.FlagSet) {
	o.processFlags.bind(f)
	f.StringSliceVar(&o.names, "op", nil, "only these operations: cudaMemcpyAsync or cudaMemcpyAsync,cuMemAlloc")
	f.StringVar(&o.node, "node", "", "only recordings of this node")
	f.StringVar(&o.session, "session", "", "only this recording, by its ID in the table sessions")
	f.BoolVar(&o.perProcess, "per-process", false, "show each process separately")
	f.BoolVar(&o.perNode, "per-node", false, "with --nodes: show each node separately")
	f.StringVar(&o.by, "by", "", "group by function: launches of each GPU function (kernel); by stack: calls from each line of code; or by label:KEY: calls with each value")
	f.StringArrayVar(&o.labels, "label", nil, "only calls with this label: tenant=a (repeatable)")
	f.BoolVar(&o.calls, "calls", false, "list single calls")
	f.StringVar(&o.show, "show", "", "view to derive from the calls: "+strings.Join(viewNames(), ", "))
	f.StringVar(&o.order, "order", bySlowest, "calls to list: slowest, or time: the first ones")
	f.UintVar(&o.limit, "limit", 0, "maximum number of calls or rows to list; 0: 20 calls, 10,000 rows")
	f.StringVar(&o.timeout, "timeout", "30s", "maximum duration of the SQL statement")
	f.BoolVar(&o.json, "json", false, "print JSON; with --calls, one call per line")
	f.BoolVar(&o.csv, "csv", false, "print CSV")
}

func oneStatement(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage(c.CommandPath()+` "SELECT ..."`, "got %d arguments; put the statement in quotes", len(args))
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
	a, err := o.find(ctx, r, &w, zone)
	if err != nil {
		return databaseProblem(r.Path(), err)
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

// parse validates the flags.
func (o *queryOptions) parse(now time.Time) (window, error) {
	if err := o.check("ingero query"); err != nil {
		return window{}, err
	}
	if o.order != bySlowest && o.order != byTime {
		return window{}, usage("--order slowest, or --order time", "--order cannot be %q", o.order)
	}
	if key, ok := strings.CutPrefix(o.by, byLabel); ok && !tick.LabelKey(key) || o.by != "" && !ok && o.by != byFunction && o.by != byStack {
		return window{}, usage("--by function, --by stack, or --by label:tenant", "--by cannot be %q", o.by)
	}
	if o.by != "" && o.calls {
		return window{}, usage("ingero query --by function", "--by and --calls cannot be combined")
	}
	if !o.calls && o.limit > 0 {
		return window{}, usage("ingero query --calls --limit 5", "--limit requires --calls or SQL")
	}
	if err := o.parseView(); err != nil {
		return window{}, err
	}
	var err error
	if o.ops, err = opsNamed(o.names); err != nil {
		return window{}, err
	}
	if o.with, err = query.ParseLabels(o.labels); err != nil {
		return window{}, usage("--label tenant=a", "--label: %v", err)
	}
	if o.show != "" && len(o.with) > 0 {
		return window{}, usage("ingero query --label tenant=a", "--label and --show cannot be combined")
	}
	return o.window(now)
}

// opsNamed returns the operations with these names.
func opsNamed(names []string) ([]events.Op, error) {
	var out []events.Op
	for _, name := range names {
		ops := events.OpsNamed(strings.TrimSpace(name))
		if len(ops) == 0 {
			return nil, usage(likeOp(name), "--op cannot be %q: no such operation", name)
		}
		for _, op := range ops {
			if !slices.Contains(out, op) {
				out = append(out, op)
			}
		}
	}
	return out, nil
}

// likeOp suggests operations with similar names.
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
	return "ingero query lists the operations that were called"
}
