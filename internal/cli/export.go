package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ingero/internal/config"
	"ingero/internal/explain"
	"ingero/internal/export"
	"ingero/internal/query"
)

// exportOptions are the flags of export.
type exportOptions struct {
	timeFlags
	format, output string
	value          string
	pids           []uint
	ops            []string
	session, node  string
	force          bool
}

// exportFormats are the rows of --format: a format and its file name extensions. SQLite
// cannot be written to a stream.
var exportFormats = []struct {
	name   string
	ends   []string
	stream bool
}{
	{"parquet", []string{".parquet"}, true},
	{"csv", []string{".csv"}, true},
	{"sqlite", []string{".sqlite", ".sqlite3", ".db"}, false},
	{formatPprof, []string{".gz", ".pprof"}, true},
	{formatFolded, []string{".folded"}, true},
	{formatPerfetto, []string{".perfetto-trace", ".pftrace", ".perfetto"}, true},
	{formatChrome, []string{".json"}, true},
	{formatClickHouse, nil, true},
}

// formatClickHouse writes no file: the output is the URL of a cluster.
const formatClickHouse = "clickhouse"

// Timeline formats.
const (
	formatPerfetto = "perfetto"
	formatChrome   = "chrome-json"
)

// Stack formats.
const (
	formatPprof  = "pprof"
	formatFolded = "folded"
)

func exportCommand(e *Env) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:     "export",
		Short:   "Export calls to Parquet, CSV or SQLite, their stacks, or a timeline",
		Long:    exportLong,
		Example: exportExample,
		Args:    noArguments,
	}
	flags := config.Bind(c)
	f := c.Flags()
	f.StringVar(&o.format, "format", "", "output format: parquet, csv, sqlite, pprof, folded, perfetto, chrome-json or clickhouse (default: from the name of the output)")
	f.StringVar(&o.value, "value", export.StackValues[0].Name, "weight of folded stacks: "+strings.Join(valueNames(), ", "))
	f.StringVarP(&o.output, "output", "o", "", "output file; -: standard output; for clickhouse, its URLs")
	o.timeFlags.bind(f)
	f.UintSliceVarP(&o.pids, "pid", "p", nil, "only calls of these processes: 4821 or 4821,5032")
	f.StringSliceVar(&o.ops, "op", nil, "only calls of these operations: cudaMalloc,cuMemAlloc")
	f.StringVar(&o.session, "session", "", "only calls of the recording with this ID")
	f.StringVar(&o.node, "node", "", "only calls of this node")
	f.BoolVar(&o.force, "force", false, "replace an existing file")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, err := e.settings(flags)
		if err != nil {
			return err
		}
		if o.format == formatClickHouse {
			return e.copyToClickHouse(c.Context(), s, o)
		}
		return e.export(c.Context(), s, o)
	}
	return c
}

func (e *Env) export(ctx context.Context, c *config.Config, o exportOptions) (err error) {
	format, err := o.kind()
	if err != nil {
		return err
	}
	value, err := o.weighedBy()
	if err != nil {
		return err
	}
	f, at, err := o.filter(e.now(o.utc))
	if err != nil {
		return err
	}
	r, end, err := e.readOrGather(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := at.anchorFilter(ctx, r, &f); err != nil {
		return o.problem(r.Path(), err)
	}
	if err := r.CheckChosen(ctx, f); err != nil {
		return o.problem(r.Path(), err)
	}
	p := e.progress()
	var res *export.Result
	wrote := ""
	write := func(file *os.File) (err error) {
		defer p.end()
		res, wrote, err = writeAs(ctx, format, file, r, f, value, p)
		return o.problem(r.Path(), err)
	}
	to, err := e.exported(o, write)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.Stderr, "Wrote %s%s%s.\n", wrote, counted(res.Calls, "call"), to)
	for _, n := range coverageNotes(&res.Coverage) {
		fmt.Fprintf(e.Stderr, "Note: %s\n", oneLine(n))
	}
	return nil
}

// writeAs writes calls, stacks or a timeline in a format. also describes the content beside calls.
func writeAs(ctx context.Context, format string, file *os.File, r *query.Reader, f query.Filter, value *export.StackValue, p *progress) (res *export.Result, also string, err error) {
	var stacks *export.StackResult
	var line *export.TimelineResult
	switch format {
	case "parquet":
		res, err = export.Parquet(ctx, file, r, f, p.calls)
	case "csv":
		res, err = export.CSV(ctx, file, r, f, p.calls)
	case formatPprof:
		stacks, err = export.Pprof(ctx, file, r, f)
	case formatFolded:
		stacks, err = export.Folded(ctx, file, r, f, value)
	case formatPerfetto:
		line, err = export.Perfetto(ctx, file, r, f, p.calls)
	case formatChrome:
		line, err = export.Chrome(ctx, file, r, f, p.calls)
	default:
		res, err = export.SQLite(ctx, file.Name(), r, f, p.calls)
	}
	if line != nil {
		res, also = &line.Result, counted(line.Chains, "chain")+" and "
	}
	if stacks != nil {
		res, also = &stacks.Result, counted(stacks.Stacks, "stack")+" that stand for "
	}
	return res, also, err
}

// problem adds a remedy to an export error.
func (o *exportOptions) problem(path string, err error) error {
	if o.session != "" && errors.Is(err, query.ErrNoSession) {
		return &problem{What: "no recording " + o.session + " in " + path, Do: "omit --session: the column session lists all recordings", Err: err}
	}
	return databaseProblem(path, err)
}

// exported writes the output and returns a description of its destination.
func (e *Env) exported(o exportOptions, write func(*os.File) error) (to string, err error) {
	return e.written(o.output, o.force, write)
}

// kind returns the format: that of --format, or by the output's file name extension.
func (o *exportOptions) kind() (string, error) {
	const do = "ingero export -o calls.parquet"
	if o.output == "" {
		return "", usage(do, "no output file given")
	}
	var names []string
	for _, f := range exportFormats {
		names = append(names, f.name)
		meant := o.format == f.name
		for _, end := range f.ends {
			meant = meant || o.format == "" && strings.EqualFold(filepath.Ext(o.output), end)
		}
		switch {
		case meant && isStream(o.output) && !f.stream:
			return "", usage("name a file: -o calls.sqlite", "cannot write %s to a stream", f.name)
		case meant && f.name == formatPerfetto && strings.EqualFold(filepath.Ext(o.output), ".json"):
			return formatChrome, nil
		case meant:
			return f.name, nil
		}
	}
	if o.format == "" {
		return "", usage("choose one with --format: "+strings.Join(names, ", "), "cannot derive the format from the name %s", o.output)
	}
	return "", usage("it can be "+strings.Join(names, ", "), "--format cannot be %q", o.format)
}

// weighedBy returns the weight of folded stacks.
func (o *exportOptions) weighedBy() (*export.StackValue, error) {
	for i := range export.StackValues {
		if v := &export.StackValues[i]; v.Name == o.value {
			return v, nil
		}
	}
	return nil, usage("it can be "+strings.Join(valueNames(), ", "), "--value cannot be %q", o.value)
}

func valueNames() (out []string) {
	for i := range export.StackValues {
		out = append(out, export.StackValues[i].Name)
	}
	return out
}

// filter converts the flags to a filter of calls, and returns its range.
func (o *exportOptions) filter(now time.Time) (f query.Filter, at window, err error) {
	f = query.Filter{Session: query.AllSessions, Node: o.node}
	if at, err = o.window(now); err != nil {
		return f, at, err
	}
	f.From, f.To = at.from, at.to
	if o.session != "" {
		f.Session = o.session
	}
	f.PIDs = numbers(o.pids)
	f.Ops, err = opsNamed(o.ops)
	return f, at, err
}

// counted formats a number of things: "1 call", "2 calls".
func counted[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return explain.Count(uint64(n)) + " " + thing + "s"
}
