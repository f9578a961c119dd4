package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/store"
	"ingero/pkg/events"
)

// queryOptions are the flags of query.
type queryOptions struct {
	timeFlags
	pids                  []uint
	names                 []string // --op
	node, cgroup, session string
	perProcess, calls     bool
	order                 string // of calls
	limit                 uint
	timeout               string
	output

	ops []events.Op // that the names stand for
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

// someCalls is how many calls are listed if nothing is said.
const someCalls = 20

func queryCommand(e *Env) *cobra.Command {
	var o queryOptions
	c := &cobra.Command{
		Use:   "query [flags] [SQL]",
		Short: "Say how often operations were called and how long they took, list calls, or run SQL",
		Long: `query reads what was recorded, also while it is being recorded, and changes nothing. It
prints of each operation how many calls there were, how long they took in all, and
quantiles; what took most time comes first. --calls lists the calls one by one.

Without a time it takes all of the latest recording. --since, --from and --to take all
recordings of that time; ` + timesHelp + `. --session names one recording.

With SQL it runs that statement instead: it can read every table and change nothing, and
is cut short where it returns too much or takes too long. ingero sql lists the tables.

Which database was read, and what of it was missing, damaged, cut or thinned, goes to
standard error; --json has it, too. A time in JSON and CSV is in UTC, a duration in
nanoseconds.`,
		Example: `  ingero query --since 1h
  ingero query --since 1h --pid 4821,5032 --per-process
  ingero query --since 30m --op cudaMemcpy --json
  ingero query --calls --op cudaStreamSync --limit 5
  ingero query --from 15:40 --to 15:45 --csv > ops.csv
  ingero query "SELECT comm, count(*) FROM processes GROUP BY comm"`,
		Args: oneStatement,
	}
	flags := config.Bind(c)
	f := c.Flags()
	o.bind(f)
	f.UintSliceVarP(&o.pids, "pid", "p", nil, "of these processes only: 4821 or 4821,5032")
	f.StringSliceVar(&o.names, "op", nil, "these operations only: cudaMemcpyAsync or cudaMemcpyAsync,cuMemAlloc")
	f.StringVar(&o.node, "node", "", "what was recorded on this machine only")
	f.StringVar(&o.cgroup, "cgroup", "", "of processes with this in the path of their cgroup: system.slice, a container's number")
	f.StringVar(&o.session, "session", "", "of this recording only, by its id in the table sessions")
	f.BoolVar(&o.perProcess, "per-process", false, "count each process by itself")
	f.BoolVar(&o.calls, "calls", false, "list single calls")
	f.StringVar(&o.order, "order", bySlowest, "which calls are listed: the slowest, or by time the first")
	f.UintVar(&o.limit, "limit", 0, "list so many calls or rows at most; 0: 20 calls, 10,000 rows")
	f.StringVar(&o.timeout, "timeout", "30s", "how long the SQL may take")
	f.BoolVar(&o.json, "json", false, "print it as JSON; of calls one a line")
	f.BoolVar(&o.csv, "csv", false, "print it as CSV")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			return e.querySQL(c, s, &o, args[0])
		}
		return e.query(c.Context(), s, &o)
	}
	return c
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
	show := o.table
	if o.calls {
		show = o.list
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
	if !o.calls && o.limit > 0 {
		return window{}, usage("ingero query --calls --limit 5", "--limit is for --calls and SQL")
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

// asked is what was found in the recordings of a window.
type asked struct {
	sessions []query.Session
	facts    []*query.Summary // of each session
	from, to time.Time        // of what was recorded in it
	cover    query.Coverage
	path     string
	filters  []query.Filter // of each session
}

// ask finds the recordings and, of each, which calls are asked for.
func (o *queryOptions) ask(ctx context.Context, r *query.Reader, w *window, zone *time.Location) (*asked, error) {
	all, err := r.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	if all, err = o.recordings(all, r.Path()); err != nil {
		return nil, err
	}
	a := &asked{path: r.Path()}
	if a.sessions, err = w.sessions(all, r.Path(), zone); err != nil {
		return nil, err
	}
	for i := range a.sessions {
		s := &a.sessions[i]
		facts, err := r.Summary(ctx, query.Filter{Session: s.ID})
		if err != nil {
			return nil, err
		}
		a.facts = append(a.facts, facts)
		a.filters = append(a.filters, o.filter(s, facts, w))
		from, to := s.Started, end(s)
		if w.from.After(from) {
			from = w.from
		}
		if !w.to.IsZero() && w.to.Before(to) {
			to = w.to
		}
		if a.from.IsZero() || from.Before(a.from) {
			a.from = from
		}
		if to.After(a.to) {
			a.to = to
		}
	}
	return a, nil
}

// recordings picks those of the node and the session that were named.
func (o *queryOptions) recordings(all []query.Session, path string) ([]query.Session, error) {
	if len(all) == 0 || o.node == "" && o.session == "" {
		return all, nil
	}
	out := slices.DeleteFunc(slices.Clone(all), func(s query.Session) bool {
		return o.node != "" && s.Node != o.node || o.session != "" && s.ID != o.session
	})
	if len(out) > 0 {
		return out, nil
	}
	var there []string
	for i := range all {
		name := all[i].ID
		if o.session == "" {
			name = all[i].Node
		}
		if !slices.Contains(there, name) && len(there) < 3 {
			there = append(there, name)
		}
	}
	what := "no recording in " + path + " is"
	if o.session != "" {
		what += " " + o.session
	}
	if o.node != "" {
		what += " of node " + o.node
	}
	return nil, &problem{What: what, Do: "there is, say, " + strings.Join(there, ", ")}
}

// nobody is no process's number.
const nobody = 1<<32 - 1

// filter says which calls of a session are asked for.
func (o *queryOptions) filter(s *query.Session, facts *query.Summary, w *window) query.Filter {
	f := query.Filter{Session: s.ID, Ops: o.ops, From: w.from, To: w.to}
	for _, pid := range o.pids {
		f.PIDs = append(f.PIDs, uint32(pid))
	}
	if o.cgroup == "" {
		return f
	}
	wanted := f.PIDs
	f.PIDs = []uint32{nobody}
	for i := range facts.Processes {
		p := &facts.Processes[i]
		if strings.Contains(p.Cgroup, o.cgroup) && (len(wanted) == 0 || slices.Contains(wanted, p.PID)) {
			f.PIDs = append(f.PIDs, p.PID)
		}
	}
	return f
}

// covered takes in how far an answer goes.
func (a *asked) covered(c query.Coverage) {
	a.cover.Thinned = a.cover.Thinned || c.Thinned
	a.cover.Torn += c.Torn
	a.cover.Missing = append(a.cover.Missing, c.Missing...)
	a.cover.Damage = append(a.cover.Damage, c.Damage...)
}

// notes says what a reader must know of the answer.
func (a *asked) notes(zone *time.Location) []string {
	out := coverageNotes(&a.cover)
	var lost uint64
	for i, s := range a.facts {
		lost += explain.Lost(s.Drops)
		switch x := &a.sessions[i]; {
		case x.State == "full" || x.State == "failed":
			out = append(out, fmt.Sprintf("recording ended before the trace did, at %s: %s", clockText(end(x).In(zone)), x.Problem))
		case !x.Capped.IsZero():
			out = append(out, "calls were not kept one by one after "+clockText(x.Capped.In(zone))+", for want of room")
		}
	}
	if lost > 0 {
		out = append(out, explain.Count(lost)+" records were lost in these recordings, so the counts may be low: ingero explain --per-process has the exact ones")
	}
	return out
}

// coverageNotes says in words how far an answer from records goes.
func coverageNotes(c *query.Coverage) []string {
	var out []string
	if c.Thinned {
		out = append(out, "not every call was recorded; some stand for several, so quantiles are estimates")
	}
	if len(c.Missing) > 0 {
		out = append(out, "the calls of these recordings are not kept any more: "+someOf(c.Missing))
	}
	if c.Torn > 0 {
		out = append(out, "a crash cut off the last "+explain.Bytes(c.Torn)+" of what was recorded")
	}
	for _, d := range c.Damage {
		out = append(out, "a recording cannot be read to its end: "+oneLine(d))
	}
	return out
}

// someOf names a few of many.
func someOf(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// gone says why there is nothing to tell of calls that were recorded.
func (a *asked) gone() error {
	if dir := store.LogDir(a.path); !isThere(dir) {
		return &problem{What: "the calls are not here: " + dir + " is missing", Do: "copy it along with the database: ingero backup does"}
	}
	return &problem{What: "the calls of that time are not kept any more", Do: "ingero explain --per-process still has the sums of whole recordings"}
}
