package mcp

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingero/internal/wire"
)

func graphLifeTool() *tool {
	return &tool{
		name: "graph_lifecycle", title: "What happened to CUDA graphs, call by call",
		about: "The last calls that captured, instantiated, updated, launched or destroyed CUDA graphs, with handles and durations, latest first. Set pid. Use it to see re-capture (torch.compile, vLLM). For rates use graph_frequency.",
		facts: []column{{"calls", "number of graph calls in this time range", count, false}},
		columns: []column{
			{"time", "time", moment, false}, {"pid", "process ID (pid)", count, false}, {"tid", "thread", count, false}, {"op", "operation", words, false}, {"duration_ns", "duration", nanos, false}, {"args", "arguments", words, false}, {"error", "error", words, false},
		},
		register: answers((*server).graphLife),
	}
}

// maxGraphCalls bounds the requested calls.
const maxGraphCalls = "500"

func (s *server) graphLife(ctx context.Context, in *Calls) (*answer, error) {
	v, err := s.callValues(ctx, in)
	if err != nil {
		return nil, err
	}
	v.Set("limit", maxGraphCalls)
	var out wire.GraphEvents[wire.CallLine]
	if err := s.get(ctx, "/api/v1/graph-events", v, &out); err != nil {
		return nil, err
	}
	a := &answer{facts: []any{out.Of}, notes: out.Notes}
	if out.Of == 0 {
		a.lead = "no call of a CUDA graph was recorded in this time range"
	}
	for i := range out.Events {
		e := &out.Events[i]
		var args []string
		for _, name := range slices.Sorted(maps.Keys(e.Args)) {
			args = append(args, name+"="+strings.Trim(string(e.Args[name]), `"`))
		}
		a.rows = append(a.rows, []any{stamp(e.Time), e.PID, e.TID, e.Op, e.DurationNS, strings.Join(args, " "), e.Error})
	}
	return a, nil
}

func graphRateTool() *tool {
	return &tool{
		name: "graph_frequency", title: "How often each CUDA graph is launched",
		about: "For each CUDA graph: launches, launches per second, and whether it is hot (10 % or more of all launches), cold or never launched. For all graphs: captures, instantiations, launches, whether their memory pool is saturated, and causes of lost time that involve graphs.",
		facts: []column{
			{"graphs", "number of graphs", count, false}, {"hot", "hot graphs", count, false}, {"cold", "cold graphs", count, false}, {"unused", "graphs that were never launched", count, false}, {"live", "graphs that were not destroyed", count, false},
			{"captures", "captures", count, false}, {"instantiations", "instantiations", count, false}, {"launches", "launches", count, false}, {"launches_per_s", "launches per second", number, false}, {"launch_p50_ns", "median duration of a launch", nanos, false}, {"launch_p99_ns", "99th percentile of the duration of a launch", nanos, false},
			{"pool", "memory pool of the graphs", words, false}, {"causes", "causes of lost time that involve graphs", words, false},
		},
		columns: []column{
			{"pid", "process ID (pid)", count, false}, {"exec", "executable graph", words, false}, {"class", "hot, cold or unused", words, false}, {"launches", "launches since its capture", count, false}, {"per_s", "launches per second, from its capture to its last launch", number, false},
			{"capture_ns", "duration of its capture", nanos, false}, {"instantiate_ns", "duration of its instantiation", nanos, false}, {"updates", "updates", count, false}, {"destroyed", "destroyed", flag, false},
		},
		register: answers((*server).graphRate),
	}
}

// poolRules are the rules for a graph pool without enough memory.
var poolRules = []string{"graph-pool", "graph-oom"}

func (s *server) graphRate(ctx context.Context, in *Calls) (*answer, error) {
	v, err := s.callValues(ctx, in)
	if err != nil {
		return nil, err
	}
	var out wire.GraphMetrics
	if err := s.get(ctx, "/api/v1/graph-metrics", v, &out); err != nil {
		return nil, err
	}
	a := &answer{facts: make([]any, len(graphRateTool().facts)), notes: out.Notes}
	launches := graphCalls(out.Ops, "GraphLaunch")
	a.facts[5], a.facts[6], a.facts[7] = known(graphCalls(out.Ops, "EndCapture")), known(graphCalls(out.Ops, "Instantiate")), known(launches)
	if out.Seconds > 0 && launches > 0 {
		a.facts[8] = float64(launches) / out.Seconds
	}
	if at := slices.IndexFunc(out.Ops, func(o wire.GraphRate) bool { return strings.Contains(o.Op, "GraphLaunch") }); at >= 0 {
		a.facts[9], a.facts[10] = out.Ops[at].P50NS, out.Ops[at].P99NS
	}
	if len(out.Graphs) == 0 {
		a.lead = "no CUDA graph was used in this time range"
	}
	a.graphRows(out.Columns, out.Graphs)
	return a, s.graphCauses(ctx, v, a)
}

// graphCalls returns the calls of operations whose names have a part: the larger of the runtime's and
// the driver's number, since runtime calls make driver calls.
func graphCalls(ops []wire.GraphRate, part string) uint64 {
	var runtime, driver uint64
	for i := range ops {
		switch o := &ops[i]; {
		case !strings.Contains(o.Op, part):
		case strings.HasPrefix(o.Op, "cuda"):
			runtime += o.Calls
		default:
			driver += o.Calls
		}
	}
	return max(runtime, driver)
}

// launchRate returns the launches per second between two times, nil if they do not tell.
func launchRate(launches int64, from, to any) any {
	first, _ := from.(string)
	last, _ := to.(string)
	a, err := time.Parse(time.RFC3339Nano, first)
	b, err2 := time.Parse(time.RFC3339Nano, last)
	if err != nil || err2 != nil || !a.Before(b) {
		return nil
	}
	return float64(launches) / b.Sub(a).Seconds()
}

// graphRows adds the graphs, and the number in each class.
func (a *answer) graphRows(columns []string, graphs []wire.Row) {
	at := func(row wire.Row, name string) any {
		if i := slices.Index(columns, name); i >= 0 && i < len(row) {
			return row[i]
		}
		return nil
	}
	number := func(v any) int64 { n, _ := v.(int64); return n }
	var all int64
	for _, g := range graphs {
		all += number(at(g, "launches"))
	}
	classes := map[string]int64{}
	for _, g := range graphs {
		n, class := number(at(g, "launches")), "cold"
		switch {
		case n == 0:
			class = "unused"
		case 10*n >= all:
			class = "hot"
		}
		classes[class]++
		if at(g, "destroyed") == nil {
			classes["live"]++
		}
		rate := launchRate(n, at(g, "captured"), at(g, "last_launch"))
		a.rows = append(a.rows, []any{at(g, "pid"), at(g, "exec"), class, n, rate, at(g, "capture_ns"), at(g, "instantiate_ns"), at(g, "updates"), at(g, "destroyed") != nil})
	}
	for i, name := range []string{"hot", "cold", "unused", "live"} {
		a.facts[i+1] = classes[name]
	}
	a.facts[0] = len(graphs)
}

// graphCauses adds the causes about graphs; it does not judge them.
func (s *server) graphCauses(ctx context.Context, v url.Values, a *answer) error {
	v.Del("op")
	r, err := s.report(ctx, v)
	if err != nil {
		return err
	}
	var found []string
	pool := ""
	for i := range r.Chains {
		c := &r.Chains[i]
		if strings.HasPrefix(c.Rule, "graph-") {
			found = append(found, c.Rule+" "+c.ID)
		}
		if slices.Contains(poolRules, c.Rule) {
			pool = "saturated"
		}
	}
	if len(a.rows) > 0 {
		a.facts[11] = cmp.Or(pool, "ok")
	}
	a.facts[12] = strings.Join(found[:min(len(found), 5)], ", ")
	return nil
}
