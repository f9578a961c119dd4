package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingero/internal/wire"
)

// Calls are the arguments of tools about calls.
type Calls struct {
	When
	PIDs
	Op    []string `json:"op,omitempty" jsonschema:"API names of operations, such as cudaMemcpyAsync; default: all"`
	Label []string `json:"label,omitempty" jsonschema:"only calls with all these labels, which programs set: tenant=a"`
	Form
}

// callValues returns the read API's parameters.
func (s *server) callValues(ctx context.Context, in *Calls) (url.Values, error) {
	v, err := s.labelled(ctx, in.When, in.PIDs, Labels{in.Label})
	if err == nil && len(in.Op) > 0 {
		v.Set("op", strings.Join(in.Op, ","))
	}
	return v, err
}

func statsTool() *tool {
	return &tool{
		name: "get_trace_stats", quiet: true, title: "Counts, times and percentiles of operations",
		about: "Calls, total time, p50, p95, p99 and maximum of each CUDA operation, longest total first. per_process=true groups by process. If single calls were deleted, or are too many, it returns the sums of whole recordings (aggregate=true). Use it for 'how slow is cudaMemcpy?'; for causes use diagnose.",
		facts: []column{{"from", "start of the time range", moment, false}, {"to", "end of the time range", moment, false}, {"aggregate", "the values are sums of whole recordings", flag, false}},
		columns: []column{
			{"source", "layer of the software", words, false}, {"op", "operation that was called", words, false}, {"job", "process", words, false}, {"pid", "process ID (pid)", count, false}, {"calls", "number of calls", count, false}, {"errors", "number of these calls that failed", count, false}, {"total_ns", "total time of these calls", nanos, false},
			{"p50_ns", "median duration of these calls", nanos, false}, {"p95_ns", "95th percentile of their duration", nanos, false}, {"p99_ns", "99th percentile of their duration", nanos, false}, {"max_ns", "duration of the longest call", nanos, false},
		},
		register: answers((*server).stats),
	}
}

// Stats are the arguments of get_trace_stats.
type Stats struct {
	PerProcess bool   `json:"per_process,omitempty" jsonschema:"group by process"`
	ByLabel    string `json:"by_label,omitempty" jsonschema:"group by the values of this label, which job then names: tenant"`
	Calls
}

func (s *server) stats(ctx context.Context, in *Stats) (*answer, error) {
	v, err := s.callValues(ctx, &in.Calls)
	if err != nil {
		return nil, err
	}
	if in.PerProcess {
		v.Set("per_process", "1")
	}
	if in.ByLabel != "" {
		v.Set("by", "label:"+in.ByLabel)
	}
	var ops wire.Operations
	quick, stop := context.WithTimeout(ctx, callTime/3)
	defer stop()
	err = s.get(quick, "/api/v1/ops", v, &ops)
	var no *apiRefusal
	if err == nil && len(ops.Operations) == 0 || errors.As(err, &no) && (no.status == http.StatusUnprocessableEntity || no.status == http.StatusNotFound) {
		return s.aggregate(ctx, in, err)
	}
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{stamp(ops.From), stamp(ops.To), nil}, notes: ops.Notes}
	for i := range ops.Operations {
		o := &ops.Operations[i]
		a.rows = append(a.rows, []any{o.Source, o.Op.Op, o.Comm, known(int64(o.PID)), o.Calls, o.Errors, o.TotalNS, o.P50NS, o.P95NS, o.P99NS, o.MaxNS})
	}
	for i := range ops.Operations {
		if in.ByLabel != "" {
			o := &ops.Operations[i]
			a.rows[i][2] = strings.TrimSpace(in.ByLabel + "=" + o.Label + " " + o.Comm) // every row has the same columns
		}
	}
	return a, nil
}

// aggregate returns sums over the latest recording, which outlive its calls. why is the error
// of the better answer, if any.
func (s *server) aggregate(ctx context.Context, in *Stats, why error) (*answer, error) {
	if in.When != (When{}) || len(in.PID) > 0 || len(in.Op) > 0 || len(in.Label) > 0 || in.ByLabel != "" {
		if why != nil {
			return nil, why
		}
		return &answer{lead: "no matching calls were recorded", facts: []any{nil, nil, nil}}, nil
	}
	latest, err := s.recordings(ctx, 1)
	if err != nil {
		return nil, err
	}
	res, err := s.sql(ctx, statement(`SELECT source, name, NULL, NULL, sum(calls), sum(errors), sum(total_ns), max(p50_ns), max(p95_ns), max(p99_ns), max(max_ns)
		FROM ops WHERE session = (SELECT id FROM sessions WHERE uid = '%s') GROUP BY source, name ORDER BY 7 DESC`, strings.ReplaceAll(latest[0].ID, "'", "''")))
	if err != nil {
		return nil, err
	}
	a := &answer{facts: []any{nil, nil, true}, notes: []string{"each percentile is the highest of all processes"}}
	for _, row := range res.Rows {
		a.rows = append(a.rows, row)
	}
	return a, nil
}

func stacksTool() *tool {
	return &tool{
		name: "get_stacks", title: "CUDA time by line of code",
		about: "Time and number of CUDA calls by the line of the program that made them, with the resolved stack (Python and native functions, files, lines), longest time first. Use it for 'which line of my code?'. It needs a recording made with --stack.",
		facts: []column{{"without", "calls without a stack", count, false}},
		columns: []column{
			{"site", "line of the program", words, false}, {"op", "operation that was called", words, false}, {"pid", "process ID (pid)", count, false}, {"calls", "number of calls", count, false}, {"wall_ns", "time in these calls", nanos, false}, {"gpu_wait_ns", "part of it that waited for the GPU", nanos, false},
			{"runnable_ns", "part of it that waited for a CPU", nanos, false}, {"live_bytes", "memory that they allocated and that is not freed", size, false}, {"stack", "stack, innermost function first", words, false},
		},
		register: answers((*server).stacks),
	}
}

const (
	maxStacks   = 10_000 // rows that the read API returns at most
	stackTokens = 8      // of the shortest row
)

func (s *server) stacks(ctx context.Context, in *Calls) (*answer, error) {
	v, err := s.callValues(ctx, in)
	if err != nil {
		return nil, err
	}
	of, err := question("get_stacks", in, in.form())
	if err != nil {
		return nil, err
	}
	from, err := in.row(of)
	if err != nil {
		return nil, err
	}
	v.Set("limit", strconv.Itoa(min(from+in.budget(usualTokens)/stackTokens, maxStacks)))
	var out wire.Stacks
	if err := s.get(ctx, "/api/v1/stacks", v, &out); err != nil {
		return nil, err
	}
	a := &answer{facts: []any{known(out.Without)}, notes: out.Notes}
	all := len(out.Stacks) + out.More
	a.more = max(min(all, maxStacks)-len(out.Stacks), 0)
	if all > maxStacks {
		a.notes = append([]string{fmt.Sprintf("%d rows with less time are left out: set pid or op", all-maxStacks)}, a.notes...)
	}
	if len(out.Stacks) == 0 {
		a.lead = "no stacks were recorded: record with sudo ingero trace --stack"
	}
	for i := range out.Stacks {
		x := &out.Stacks[i]
		var frames []string
		for _, f := range x.Frames[:min(len(x.Frames), 6)] {
			text := cmp.Or(f.Func, "?")
			if f.Line > 0 {
				text += " " + f.File[strings.LastIndexByte(f.File, '/')+1:] + ":" + strconv.Itoa(int(f.Line))
			}
			frames = append(frames, text)
		}
		a.rows = append(a.rows, []any{x.Site, x.Op, x.PID, x.Calls, x.WallNS, known(x.GPUWaitNS), known(x.RunnableNS), known(x.LiveBytes), strings.Join(frames, " < ")})
	}
	return a, nil
}

// statement fills in names, in which quotes are refused or doubled.
func statement(format string, args ...any) wire.Statement {
	return wire.Statement{SQL: fmt.Sprintf(format, args...)}
}
