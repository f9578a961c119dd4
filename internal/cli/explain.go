package cli

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/query"
	"ingero/internal/tick"
	"ingero/internal/where"
)

// recent is the default window: the end of the latest recording.
const recent = 5 * time.Minute

// explainOptions are the flags of explain.
type explainOptions struct {
	timeFlags
	processFlags
	last      uint
	json      bool
	tables    bool // --per-process
	stored    bool // --chains
	anew      bool
	failOn    string
	slo       string
	objective explain.Objective // slo, parsed
	several   bool              // the reports are of several nodes
	labels    []string          // --label
	with      []query.Label     // labels, parsed
}

var explainLong = `explain runs the analysis of a live trace over a recording and reports the lost time. For
each cause it shows how much time was lost, the culprit, when it happened, what is ruled
out, and a fix. For each affected process it shows where the time went. If no time was
lost, explain says so and stops.

--per-process adds every process and operation: the number of calls and failures, their
durations, and what their threads did meanwhile. --json prints all of this.

By default, explain covers the last 5 minutes of the latest recording. --since, --from
and --to select all recordings of that time. Each node has its own report; with --json,
one object for each follows the other.
` + timesHelp + `

Counts of a whole recording are exact; counts of a part come from the records of its
calls. For more than 300,000 calls, explain reports what the same analysis found during
the recording, from sums that are kept longer than the calls. A day then takes no longer
than a minute. --anew re-analyzes every call.

With --label, the report covers only the time ranges in which a process, or one of its
threads, had that label (docs/guides/labels.md), and the calls that have the label. By
default, it covers the whole latest recording. A cause is shown if it lies in one of the
ranges; causes that lie only partly in them are counted. Requests to servers count if they
arrived in a range.

With --nodes, explain asks the ingero dashboard of other nodes for the causes they found
while recording, most severe first. It compares the ranks of jobs that span several nodes:
which rank has not entered an NCCL collective, and which rank the others waited for
(docs/guides/fleet.md).

` + stepsHelp + `

explain exits with code 4 if it finds a cause of the severity in --fail-on or higher.`

func explainCommand(e *Env) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain",
		Short: "Explain what slowed the recorded jobs, what caused it, and where the time went",
		Long:  explainLong,
		Example: `  ingero explain
  ingero explain --since 1h --pid 4821
  ingero explain --from 15:40 --to 15:45
  ingero explain --job 4711
  ingero explain --per-process
  ingero explain --nodes gpu-1:8080,gpu-2:8080 --token-file token --since 10m
  ingero explain --chains --since 1w     the causes found during recording, without a new analysis
  ingero explain --last 100 --json
  ingero explain --label epoch=3
  ingero explain --slo ttft=200ms     what the requests waited for whose first byte took longer
  ingero explain --since 1h --fail-on HIGH    for scripts: exits with code 4 if such a cause is found`,
		Args: noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	o.timeFlags.bind(f)
	o.processFlags.bind(f)
	f.UintVar(&o.last, "last", 0, "explain the last N calls of the latest recording")
	f.BoolVar(&o.tables, "per-process", false, "add where the time went and the operations, for each process")
	f.BoolVar(&o.stored, "chains", false, "show the causes found during recording; analyze nothing again")
	f.BoolVar(&o.anew, "anew", false, "re-analyze every call, however many there are")
	f.StringVar(&o.failOn, "fail-on", "", "exit with code 4 if a cause of this severity or higher is found: LOW, MEDIUM or HIGH")
	f.StringVar(&o.slo, "slo", "", "explain the requests to servers that miss this objective: ttft=200ms (first byte), tpot=30ms (between two events) or total=5s")
	f.StringArrayVar(&o.labels, "label", nil, "only the time in which processes had this label: tenant=a (repeatable)")
	f.BoolVar(&o.json, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		if queriesFleet(s) {
			return e.explainNodes(c, s, &o)
		}
		return e.explain(c.Context(), s, o)
	}
	return c
}

// limit returns the severity of --fail-on, 0 if not given.
func (o *explainOptions) limit() (tick.Severity, error) {
	s, ok := tick.ParseSeverity(o.failOn)
	if !ok && o.failOn != "" {
		return 0, usage("ingero explain --fail-on HIGH", "--fail-on cannot be %q: it must be LOW, MEDIUM or HIGH", o.failOn)
	}
	return s, nil
}

// failed returns exitFound if a chain's severity is limit or more.
func failed(chains []tick.Chain, limit tick.Severity) error {
	if limit > 0 && slices.ContainsFunc(chains, func(c tick.Chain) bool { return c.Severity >= limit }) {
		return exitCode(exitFound)
	}
	return nil
}

func (e *Env) explain(ctx context.Context, c *config.Config, o explainOptions) (err error) {
	if o.last > 0 && o.given() {
		return usage("use one of them", "--since, --last, and --from with --to cannot be combined")
	}
	limit, err := o.limit()
	if err != nil {
		return err
	}
	if o.slo != "" {
		if o.objective, err = explain.ObjectiveOf(o.slo); err != nil {
			return usage("ingero explain --slo ttft=200ms", "--slo: %v", err)
		}
	}
	if o.with, err = query.ParseLabels(o.labels); err != nil {
		return usage("--label tenant=a", "--label: %v", err)
	}
	w, err := o.window(e.now(o.utc))
	if err != nil {
		return err
	}
	r, err := e.read(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sums, long, err := e.summaries(ctx, r, &w, o)
	if err != nil {
		return databaseProblem(r.Path(), err)
	}
	if o.place != (where.Selector{}) && !slices.ContainsFunc(sums, func(s *query.Summary) bool { return len(s.Processes) > 0 }) {
		return &problem{What: "no recorded process matches " + o.place.String(), Do: `to list the recorded processes: ingero query "SELECT DISTINCT comm, cgroup, container, pod, namespace, job FROM processes"`}
	}
	var chains []tick.Chain
	nodes := byNode(sums)
	o.several = len(nodes) > 1
	for i, node := range nodes {
		in, err := e.account(ctx, r, c, node, &o, long)
		if err != nil {
			return databaseProblem(r.Path(), err)
		}
		if i > 0 && !o.json {
			err = e.printf("\n")
		}
		if err = errors.Join(err, e.show(in, &o)); err != nil {
			return err
		}
		chains = append(chains, in.Chains...)
	}
	return failed(chains, limit)
}

// byNode groups summaries by node, the node of the first one first.
func byNode(sums []*query.Summary) (groups [][]*query.Summary) {
	for _, s := range sums {
		at := slices.IndexFunc(groups, func(g []*query.Summary) bool { return g[0].Session.Node == s.Session.Node })
		if at < 0 {
			at, groups = len(groups), append(groups, nil)
		}
		groups[at] = append(groups[at], s)
	}
	return groups
}

// account returns the input of the report on the recordings of one node. PIDs are unique only there.
func (e *Env) account(ctx context.Context, r *query.Reader, c *config.Config, sums []*query.Summary, o *explainOptions, long map[string]bool) (_ *explain.Input, err error) {
	in := joined(sums)
	in.Source, in.Requests, in.Labels = nearby(r.Path()), &explain.Requests{Objective: o.objective}, o.labelsOf()
	for _, s := range sums {
		if err := e.causes(ctx, r, s, in, o, long[s.Session.ID]); err != nil {
			return nil, err
		}
	}
	in.Remarks = append(remarks(sums, e.zone(o.utc)), in.Remarks...)
	if !o.stored && slices.ContainsFunc(sums, func(s *query.Summary) bool { return long[s.Session.ID] }) {
		in.Remarks = append(in.Remarks, longRemark(sums, long))
	}
	tick.SortChains(in.Chains)
	if in.Chains, in.Hidden, err = splitChains(ctx, filter(c), r, e.now(true), in.Chains); err != nil {
		return nil, err
	}
	return in, errors.Join(memory(ctx, r, sums, in), faults(ctx, r, sums, in, o))
}

// show prints the report.
func (e *Env) show(in *explain.Input, o *explainOptions) error {
	if o.json {
		text, err := explain.ReportJSON(in)
		return errors.Join(err, e.printf("%s\n", text))
	}
	if o.stored && len(in.Chains)+len(in.Hidden)+len(in.Xids) == 0 {
		if in.Labels != nil {
			return e.printf("%s\n", in.Labels.NoCause())
		}
		if o.several {
			return e.printf("No cause of lost time was found during the recordings of node %s.\n", in.Node)
		}
		return e.printf("No cause of lost time was found during this recording.\n")
	}
	detail := explain.Brief
	if o.tables {
		detail = explain.Tables
	}
	return e.printReport(e.Stdout, in, detail, e.zone(o.utc))
}

// nearby returns a path relative to the working directory if it lies below it.
func nearby(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// memory adds the processes' memory ledgers of whole recordings: the allocations before a
// part of a recording are not in the part.
func memory(ctx context.Context, r *query.Reader, sums []*query.Summary, in *explain.Input) error {
	in.Memory = map[uint32]tick.Memory{}
	for _, s := range sums {
		all, err := r.Memory(ctx, query.Filter{Session: s.Session.ID})
		if err != nil {
			return err
		}
		maps.Copy(in.Memory, all)
	}
	return nil
}

// faults adds GPU faults: those of the selected processes, and those without a process. It also
// adds the inference servers among the processes.
func faults(ctx context.Context, r *query.Reader, sums []*query.Summary, in *explain.Input, o *explainOptions) error {
	for _, s := range sums {
		f, _, err := o.filter(ctx, r, &s.Session, s.From, s.To)
		if err != nil {
			return err
		}
		xids, err := r.Xids(ctx, f)
		if err != nil {
			return err
		}
		in.Xids = append(in.Xids, xids...)
		reads, err := r.Inference(ctx, f)
		if err != nil {
			return err
		}
		var servers tick.Servers
		servers.Add(reads)
		in.Servers = append(in.Servers, servers.List()...)
		if in.GPUs, err = r.GPUs(ctx, &s.Session); err != nil {
			return err
		}
	}
	return nil
}

// causes adds the chains of a recording's processes, and where their time went.
func (e *Env) causes(ctx context.Context, r *query.Reader, s *query.Summary, in *explain.Input, o *explainOptions, long bool) error {
	f, within, err := o.filter(ctx, r, &s.Session, s.From, s.To)
	if err != nil {
		return err
	}
	in.Labels.Add(within)
	if o.stored {
		chains, partly, err := chainsIn(ctx, r, s, f)
		in.Chains = append(in.Chains, chains...)
		in.Labels.AddPartly(partly)
		return err
	}
	if long {
		err := in.Requests.AddRecorded(ctx, r, &s.Session, f, s.Processes)
		if errors.Is(err, query.ErrNoCalls) {
			err = nil
		}
		return errors.Join(stored(ctx, r, s, f, in), err)
	}
	from, to := o.analysed(s.From, s.To)
	c, err := analyseWithin(ctx, r, &s.Session, from, to, within, e.logger(e.debug), requestSums{to: in.Requests, pids: f.PIDs, within: within})
	switch {
	case err != nil:
		return err
	case c == nil: // its calls have been deleted
		return stored(ctx, r, s, f, in)
	}
	if len(c.unread.parts) > 0 {
		s.Damage, in.Remarks = slices.DeleteFunc(s.Damage, c.unread.has), append(in.Remarks, c.unread.remark())
	}
	c.setTotalCosts(s.From, s.To)
	c.ledger(in, f.PIDs)
	return openSteps(ctx, r, f, in)
}
